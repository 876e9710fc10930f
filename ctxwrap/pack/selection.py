"""The candidates of a pack: texts and retrieved passages, and the selection of those that are worth their tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from ctxwrap.kinds import KINDS, PackKind, is_file, seen_by
from ctxwrap.protocol.instructions import encode_escaped, frame_text, sanitise_framed
from ctxwrap.redaction.visibility import MODEL_ONLY, Target, VisibilityRules
from ctxwrap.retrieval.selection import Passage
from ctxwrap.tokens.measure import Measure, estimate_tokens, truncate
from ctxwrap.types import Candidate, PackItem, Record, Resource, SourcedText

NOT_VISIBLE = "it is not for the model to see"
_LESS_RELEVANT = "others are more to the point"

_RETRIEVED = KINDS["retrieved"]


def select(candidates: Sequence[Candidate], limit: int) -> tuple[list[Candidate], list[PackItem]]:
    """The candidates that fit, in their order; and an item for every candidate, with the reason for its selection."""
    chosen: list[Candidate] = []
    items: list[PackItem] = []
    left = limit
    for candidate in candidates:
        reason = _why_not(candidate.tokens, left, candidate.visibility)
        if not reason:
            chosen.append(candidate)
            left -= candidate.tokens
        items.append(as_item(candidate, included=not reason, reason=reason or candidate.reason))
    return chosen, items


def _why_not(tokens: int, left: int, visibility: tuple[str, ...]) -> str:
    if "model" not in visibility:
        return NOT_VISIBLE
    return "" if tokens <= left else f"over budget: {tokens} tokens, {max(0, left)} left"


def as_item(candidate: Candidate, *, included: bool, reason: str) -> PackItem:
    return PackItem(
        candidate.kind,
        candidate.source,
        candidate.tokens,
        included,
        reason,
        candidate.priority,
        candidate.freshness,
        candidate.origin,
        candidate.visibility,
        candidate.refs,
    )


_Item = TypeVar("_Item", Candidate, PackItem)


class Sharing:
    """The visibility of items, and the texts for targets other than the model."""

    def __init__(self, rules: VisibilityRules) -> None:
        self._rules = rules
        self._declared: Mapping[str, tuple[str, ...]] | None = None
        """What files name, by path; None if there is no working set."""
        self.resources: list[Resource] = []

    def declare(self, visibility: Mapping[str, tuple[str, ...]]) -> None:
        """Set the targets that files of the working set name, by path."""
        self._declared = visibility

    def seen_by(self, kind: str, source: str) -> tuple[Target, ...]:
        own = self._declared.get(source) if self._declared and is_file(kind) else None
        return seen_by(self._rules, kind, source, own)

    def offer(self, kind: str, texts: Iterable[SourcedText]) -> None:
        """Keep the texts that targets other than the model may see."""
        offered = (Resource(kind, text.source, text.text, self.seen_by(kind, text.source)) for text in texts)
        self.resources += [each for each in offered if each.visibility not in ((), MODEL_ONLY)]

    def mark_candidates(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return self._marked(candidates)

    def mark_items(self, items: tuple[PackItem, ...]) -> tuple[PackItem, ...]:
        """Items with their visibility. Without rules and files, that is the one they were made with."""
        return tuple(self._marked(items)) if self._rules or self._declared is not None else items

    def _marked(self, items: Sequence[_Item]) -> list[_Item]:
        seen = {place: self.seen_by(*place) for place in {item[:2] for item in items}}  # many share kind and source
        return [
            item if item.visibility == seen[item[:2]] else item._replace(visibility=seen[item[:2]]) for item in items
        ]


def text_candidates(
    kind: PackKind, offered: Iterable[SourcedText], boundary: str, measure: Measure, limit: int
) -> list[Candidate]:
    """Texts of the session, each in a frame, cut to `limit` tokens if their kind truncates."""
    candidates = []
    for text in offered:
        content = sanitise_framed(text.text.strip(), boundary)

        def size(piece: str, source: str = text.source) -> int:
            return measure.text(frame_text(piece, source, "context", boundary))

        piece = truncate(content, limit, "end", size) if kind.truncates else content
        whole = frame_text(piece or content, text.source, "context", boundary)
        reason = kind.reason if piece in (content, "") else f"truncated from {size(content)}"
        candidates.append(
            Candidate(kind.name, text.source, measure.text(whole), whole, origin=text.origin, reason=reason)
        )
    return candidates


_SHORT, _LONG = 100, 200
"""Characters of a message up to which it leans on what was said before, and from which it brings its own context."""


_SHORT_QUESTION = 4
"""A question of fewer words is too short to search with."""


def search_text(question: str, task: str) -> str:
    """The text to search with: the user's newest message, with the active task if it is short."""
    words = question.split(None, _SHORT_QUESTION - 1)
    return question if len(words) == _SHORT_QUESTION else f"{question}\n{task}"


def need_of_past(question: str) -> float:
    """How much a message needs of what was said before, from 1 for a short one to 0."""
    return min(1.0, max(0.0, (_LONG - len(question)) / (_LONG - _SHORT)))


class Retrieved(NamedTuple):
    """The passages of the log that are about a question."""

    chosen: tuple[Passage, ...] = ()
    """Best first, without repetitions, within the budget."""
    missed: tuple[Passage, ...] = ()
    """The next best."""


def passages_sent(sent: Record) -> list[Any]:
    """The passages in the record of a pack, in the order of the request; older logs have them oldest first."""
    is_old = sent.get("lines", 1) < _NEWEST_FIRST
    return sorted(sent["found"], key=lambda row: (row[0] if is_old else -row[0], row[1]))


LINES = 3
"""The form of passages in a request, which the log notes: a day stands only in the first of its lines."""

_NEWEST_FIRST = 2
"""An earlier form: newest first, each line with its day. Logs without a form have the oldest first."""


def speaker_lines(passages: Iterable[Passage], form: int = LINES) -> list[str]:
    """Passages as the model sees them: one line of JSON each, which no text inside can end."""
    lines: list[str] = []
    last = ""
    for _, _, text, heading, speaker, _, _, _ in passages:
        if form < _NEWEST_FIRST:
            lines.append(encode_escaped({"when": heading, "by": speaker, "said": text}))
            continue
        named = f"{heading} {speaker}" if form < LINES or heading != last else speaker
        lines.append(f"{{{_encoded(named)}:{_encoded(text)}}}")
        last = heading
    return lines


@lru_cache(maxsize=1024)
def _encoded(text: str) -> str:
    """Passages are often found again, and a line is made once to be counted and once to be sent."""
    return encode_escaped(text)


_pack_item: Callable[[tuple[Any, ...]], PackItem] = partial(tuple.__new__, PackItem)
"""Like `_make`, without a call in Python for each passage."""


def fit_passages(
    found: Iterable[Passage], size: Callable[[str], int], limit: int, seen: tuple[Target, ...]
) -> tuple[list[Passage], list[PackItem]]:
    """The passages that fit, and an item for every one, best first; `seen` says who may see them.

    Of the passages of a day that fit, the first one pays for the day.
    """
    chosen: list[Passage] = []
    items: list[PackItem] = []
    headings: set[str] = set()
    kind, source, usual, is_seen = _RETRIEVED.name, _RETRIEVED.source, _RETRIEVED.reason, "model" in seen
    for each in found:
        number, part, text, heading, speaker, _, reasons, origin = each
        named = speaker if heading in headings else f"{heading} {speaker}"
        tokens = size(f"{{{_encoded(named)}:{_encoded(text)}}}") + 1
        why_not = "" if is_seen and tokens <= limit else _why_not(tokens, limit, seen)
        if tokens <= limit:
            limit -= tokens
            headings.add(heading)
        if not why_not:
            chosen.append(each)
        reason = why_not or (f"{usual} by {', '.join(reasons)}" if reasons else usual)
        refs = (f"{number}.{part}",)
        row = (kind, source, tokens, not why_not, reason, 0.5, number, origin or speaker, seen, refs)
        items.append(_pack_item(row))
    return chosen, items


def missed_passages(missed: Iterable[Passage], seen: tuple[Target, ...]) -> list[PackItem]:
    """The passages that were found and left out, with an estimate of their tokens."""
    items: list[PackItem] = []
    kind, source = _RETRIEVED.name, _RETRIEVED.source
    for number, part, text, heading, speaker, _, reasons, origin in missed:
        tokens = estimate_tokens(f"{{{_encoded(f'{heading} {speaker}')}:{_encoded(text)}}}") + 1
        reason, refs = ", ".join(reasons) or _LESS_RELEVANT, (f"{number}.{part}",)
        items.append(_pack_item((kind, source, tokens, False, reason, 0.5, number, origin or speaker, seen, refs)))
    return items


def newest_first(passages: Iterable[Passage]) -> list[Passage]:
    """The passages in the order of the request: of what was said twice, the newer counts.

    Parts of one message stay in order.
    """
    return sorted(sorted(passages, key=_BY_PART), key=_BY_NUMBER, reverse=True)


_BY_NUMBER, _BY_PART = itemgetter(0), itemgetter(1)
