"""Missing context: gaps in a pack and questions of the model, detected, logged and resolved."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, get_args

from ctxwrap.kinds import is_file, kind_named
from ctxwrap.memory.similarity import key_of
from ctxwrap.pack.receipt import EventClass, EventIds, context_event
from ctxwrap.protocol.vocabulary import MAX_QUESTIONS
from ctxwrap.types import MissingContext, MissingStatus, PackItem, Record, Severity

MissingItems = tuple[MissingContext, ...]

MODEL = "model"
"""The source of a question that the model flagged."""

DETECTED: EventClass = "context.missing.detected"
REQUESTED: EventClass = "context.missing.requested"
RESOLVED: EventClass = "context.missing.resolved"
CLASSES = (DETECTED, REQUESTED, RESOLVED)

_MOST, _ROUNDS = 32, 50
"""The most open questions, and also sources, and the rounds after which they expire."""

SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def id_of(source: str, words: str = "") -> str:
    """An id that ignores case, punctuation and white space of a question."""
    return f"missing-{sha256(f'{source} {key_of(words) or words}'.encode('utf-8', 'replace')).hexdigest()[:8]}"


def severity_in(data: Mapping[str, Any]) -> Severity | None:
    return next((word for word in SEVERITIES if word == data.get("severity")), None)


def is_open(each: MissingContext) -> bool:
    return each.status in ("open", "requested", "waiting", "blocked")


def open_in(known: Iterable[MissingContext]) -> MissingItems:
    return tuple(filter(is_open, known))


def gaps_in(items: Sequence[PackItem], report: Mapping[str, Any]) -> list[MissingContext]:
    """The gaps of a pack, worst first: files and texts that should be in it."""
    found = [_file(str(each["path"]), each) for each in report.get("missing_context") or ()]
    known = {each.source for each in found}
    found += [each for item in _wanted(items) if (each := _gap(item)) is not None and each.source not in known]
    return sorted(found, key=lambda each: -SEVERITIES.index(each.severity))


def _file(path: str, gap: Mapping[str, Any]) -> MissingContext:
    return _of_source(
        f"workingset:{path}",
        f"What does {path!r} of the working set say?",
        gap["severity"],
        blocked_actions=(f"show {path!r} to the model",),
        reason=str(gap["reason"]),
        remedy=str(gap["resolution"]),
    )


def _gap(item: PackItem) -> MissingContext | None:
    """The gap if an item exceeded the budget, or a vital file was truncated."""
    kind = kind_named(item.kind)
    if is_file(item.kind) and item.included and item.priority >= 1 and item.reason.startswith("truncated"):
        gap = {"severity": "high", "reason": item.reason, "resolution": "raise max_tokens, or shorten it"}
        return _file(item.source, gap)
    if kind.severity is None or item.included or not item.reason.startswith("over budget"):
        return None
    return _of_source(
        _source_of(item),
        f"What does {kind.noun or item.kind} {item.source!r} say?",
        kind.severity,
        blocked_actions=(f"show {item.source!r} to the model",),
        reason=item.reason,
        remedy="raise the budget or its share, or shorten it",
    )


def _of_source(source: str, question: str, severity: Severity, **more: Any) -> MissingContext:
    return MissingContext(
        id_of(source), question, severity, "open", source, "the context of this turn", "operator", **more
    )


def _source_of(item: PackItem) -> str:
    return f"{kind_named(item.kind).store}:{item.source}"


def pack_events(
    known: MissingItems, items: Sequence[PackItem], report: Mapping[str, Any], ids: EventIds
) -> list[Record]:
    """The events of a new pack: gaps that it closes, gaps and questions that expire, and gaps that are new.

    A gap that stays is logged again only if its severity changes.
    """
    wanted = _wanted(items)
    if not (known or wanted or report):
        return []
    lacks = {each.id: each for each in gaps_in(wanted, report)}
    shown = {_source_of(item) for item in wanted if item.included}
    there = [each for each in known if each.source in shown and each.id not in lacks]
    over = [each for each in _overdue(known, ids.round) if each.id not in lacks and each not in there]
    left = {each.id: each for each in known if each not in there and each not in over}
    capacity = _MOST - sum(each.source != MODEL for each in open_in(left.values()))
    new = [each for each in lacks.values() if each.id not in left][: max(0, capacity)]
    changed = [each for each in lacks.values() if each.id in left and _differs(left[each.id], each.severity)]
    return [
        *(_settled(each, ids, "resolved", "it is in the pack") for each in there),
        *(_settled(each, ids, "expired", "nobody came back to it") for each in over),
        *(_detected(each, ids) for each in (*new, *changed)),
    ]


def _wanted(items: Sequence[PackItem]) -> list[PackItem]:
    """The items that are missing context when a pack lacks them: those of a few kinds."""
    return [item for item in items if _is_missed(item.kind)]


@lru_cache(maxsize=256)
def _is_missed(kind: str) -> bool:
    return is_file(kind) or kind_named(kind).severity is not None


def _overdue(known: MissingItems, round: int) -> list[MissingContext]:
    """What has been open for too many rounds, and the oldest questions beyond the limit."""
    asked = [each for each in open_in(known) if each.source == MODEL]
    return [each for each in open_in(known) if round - each.round > _ROUNDS or each in asked[:-_MOST]]


def questions_shown(known: MissingItems, round: int) -> tuple[MissingContext, ...]:
    """The questions that the model is shown in a round, newest first."""
    over = _overdue(known, round)
    asked = [each for each in open_in(known) if each.source == MODEL and each not in over]
    return tuple(asked[: -MAX_QUESTIONS - 1 : -1])


def questions_as_json(questions: Iterable[MissingContext]) -> list[Record]:
    return [{"question": each.question, "severity": each.severity} for each in questions]


def question_events(
    known: MissingItems, listed: Iterable[Mapping[str, str]], ids: EventIds, resolution: str
) -> list[Record]:
    """The events of a list of questions in a snapshot: a question that was shown and is not listed is resolved.

    A declined question stays declined.
    """
    before = {each.id: each for each in known}
    asked = {id_of(MODEL, each["question"]): each for each in reversed(list(listed))}
    dropped = [each for each in questions_shown(known, ids.round) if each.id not in asked]
    events = [_settled(each, ids, "resolved", resolution) for each in dropped]
    for id, each in reversed(asked.items()):
        events += _flagged(id, each, before.get(id), ids)
    return events


def _flagged(id: str, entry: Mapping[str, str], before: MissingContext | None, ids: EventIds) -> list[Record]:
    if before is not None and not is_open(before):
        return []
    severity = severity_in(entry) or (before.severity if before else "medium")
    needed_for, asked = entry.get("needed_for", ""), entry.get("asked", "")
    blocked = (needed_for,) if severity == "blocking" and needed_for else ()
    events = []
    if before is None or _differs(before, severity):
        events.append(
            _detected(MissingContext(id, entry["question"], severity, "open", MODEL, needed_for, "", blocked), ids)
        )
    if asked and (before is None or before.requested_from != asked):
        data = {"requested_from": asked, "status": "requested", "severity": severity}
        events.append(context_event(REQUESTED, ids, id, **data))
    return events


def settlement_event(known: MissingItems, id: str, status: MissingStatus, note: str, session: str) -> Record | None:
    """The event of an operator who settles it; None if the id is unknown."""
    each = next((each for each in known if each.id == id), None)
    return each and _settled(each, EventIds(session, each.turn), status, note)


def _differs(before: MissingContext, severity: Severity) -> bool:
    return is_open(before) and before.severity != severity


def _detected(each: MissingContext, ids: EventIds) -> Record:
    names = ("question", "severity", "needed_for", "source", "requested_from", "reason", "remedy", "status")
    data = {name: getattr(each, name) for name in names if getattr(each, name)}
    return context_event(DETECTED, ids, each.id, **data, blocked_actions=list(each.blocked_actions), round=ids.round)


def _settled(each: MissingContext, ids: EventIds, status: MissingStatus, resolution: str) -> Record:
    return context_event(RESOLVED, ids, each.id, status=status, resolution=resolution, severity=each.severity)


_HELD, _LONGEST, _FEW = 256, 2000, 8
"""The most entries, characters per text, and actions that are read from a log, which may be forged."""

_OVER = ("resolved", "expired")
_SETTLED: tuple[MissingStatus, ...] = ("resolved", "declined", "expired")


def changed_by(event: Record, before: MissingContext | None) -> MissingContext | None:
    """The state of an entry after an event."""
    data, kind = event.get("data"), event.get("type")
    data = data if isinstance(data, dict) else {}
    if kind == DETECTED:
        new = _read(event, data)
        if before is None or before.status in _OVER:
            return new
        kept = before._replace(severity=new.severity, blocked_actions=new.blocked_actions)
        return kept._replace(needed_for=new.needed_for or before.needed_for) if is_open(before) else before
    if before is None:
        return None
    if kind == REQUESTED and is_open(before):
        return before._replace(status="requested", requested_from=_text(data.get("requested_from")))
    if kind == RESOLVED:
        return before._replace(status=_status_in(data), resolution=_text(data.get("resolution")))
    return before


def missing_after(known: MissingItems, event: Record) -> MissingItems:
    """The open and declined entries after one more event of the log."""
    if event.get("type") not in CLASSES:
        return known
    id = event.get("subject")
    if not isinstance(id, str) or not id:
        return known
    at = next((at for at, each in enumerate(known) if each.id == id), len(known))
    new = changed_by(event, known[at] if at < len(known) else None)
    stays = new is not None and (is_open(new) or new.status == "declined")
    return (*known[:at], *([new] if new and stays else []), *known[at + 1 :])[-_HELD:]


def missing_history(events: Iterable[Record]) -> MissingItems:
    """All entries of a log, in their last state; one that was detected again counts as new."""
    found: dict[str, MissingContext] = {}
    for event in events:
        id = event.get("subject")
        if event.get("type") in CLASSES and isinstance(id, str) and id:
            before = found.get(id)
            new = changed_by(event, before)
            if before and before.status in _OVER and event["type"] == DETECTED:
                del found[id]
            found |= {id: new} if new else {}
    return tuple(found.values())


def _read(event: Record, data: Mapping[str, Any]) -> MissingContext:
    number, blocked = data.get("round"), data.get("blocked_actions")
    return MissingContext(
        id=_text(event.get("subject")),
        question=_text(data.get("question")),
        severity=severity_in(data) or "medium",
        source=_text(data.get("source")) or MODEL,
        needed_for=_text(data.get("needed_for")),
        requested_from=_text(data.get("requested_from")),
        blocked_actions=tuple(map(_text, blocked[:_FEW])) if isinstance(blocked, list) else (),
        reason=_text(data.get("reason")),
        remedy=_text(data.get("remedy")),
        turn=_text(event.get("run")),
        round=number if isinstance(number, int) else 0,
    )


def _text(value: Any) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _status_in(data: Mapping[str, Any]) -> MissingStatus:
    return next((word for word in _SETTLED if word == data.get("status")), "resolved")


def missing_from_json(value: Any) -> MissingItems:
    """The entries of a checkpoint."""
    found = (MissingContext(*each) for each in value)
    return tuple(each._replace(blocked_actions=tuple(each.blocked_actions)) for each in found)
