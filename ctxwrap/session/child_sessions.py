"""Child contexts: what a parent's session hands to other agents, and what comes back of it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.errors import InvalidId, NotFound, SettingsError
from ctxwrap.redaction.redactor import change_of
from ctxwrap.session.abi import is_legal_name, legal_name, record_issues
from ctxwrap.session.append_only_file import line
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.settings import Settings
from ctxwrap.types import Record, SessionKey

LONGEST_TEXT = 1 << 20
"""Of a handoff, of a result and of all refs of a result, in bytes."""

LARGEST_ARTIFACT = 64 << 20
"""In bytes."""

MOST_ARTIFACTS = 256
"""Of one result."""

PARENT_DEAD = "parent_dead"
"""The one reason for a cancellation that the ABI has a word for."""

ChildStatus = Literal["done", "error", "cancelled"]


class Child(NamedTuple):
    """One child, as its parent knows it: the parent never reads the child's own session."""

    name: str
    agent: str
    session: str
    """Of the parent's tenant, in the same store."""
    status: str
    """pending, active, done, error or cancelled."""
    summary: str = ""
    """A few words of its result, once it has one; all of it is in `context/child/<name>/`."""


def start_child(
    session: str,
    name: str,
    *,
    handoff: str,
    child_agent: str | None = None,
    child_session: str | None = None,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    settings: Settings | None = None,
) -> Child:
    """Write down that a child begins, and all that it is told: `handoff`, up to 1 MB.

    Its agent is the parent's unless another is named, its session `<session>/<name>`. Open that one with the names
    that come back, such as `ctxwrap.using(session=child.session, agent=child.agent)`.
    """
    own = key_for(child_session or f"{session}/{name}", tenant, child_agent or agent)
    _check_name("a child", name)
    _check_size(f"the handoff of {name!r}", handoff)
    with _opened(session, store, tenant, agent, settings) as known:
        _check_new(known, name, own)
        event = {"type": "agent.child.start", "child": name, "agent": own.agent, "session": own.session}
        _append(known, {**event, "handoff": handoff, "ctx": {}})
        return _child(known, name)


def attach_result(
    session: str,
    name: str,
    *,
    result: str,
    status: ChildStatus = "done",
    refs: Iterable[Mapping[str, Any]] = (),
    artifacts: Mapping[str, bytes] | None = None,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    settings: Settings | None = None,
) -> Child:
    """Write down how a child ended: what it says, what it refers to, and files, each of which is stored once.

    A result and its refs are up to 1 MB each, an artifact 64 MB, and there are 256 of them at most. Refs are records
    `{"id", "path", "kind", "summary"}` of kind file, artifact, tool_output, swap or child_result.
    """
    listed, files = _checked_refs(name, refs), _checked_artifacts(artifacts or {})
    _check_size(f"the result of {name!r}", result)
    if status not in get_args(ChildStatus):
        raise SettingsError(f"a child ends as {', '.join(get_args(ChildStatus))}, not as {status!r}")
    with _opened(session, store, tenant, agent, settings) as known:
        _check_active(known, name)
        _append(known, _ending(name, result, status, listed, {each: known.keep(data) for each, data in files.items()}))
        return _child(known, name)


def cancel_child(
    session: str,
    name: str,
    *,
    reason: str = PARENT_DEAD,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    settings: Settings | None = None,
) -> Child:
    """Write down that a child is not waited for any more; a reason of your own stands where its result would be."""
    _check_size(f"the reason to cancel {name!r}", reason)
    with _opened(session, store, tenant, agent, settings) as known:
        _check_active(known, name)
        event = {"type": "agent.child.cancel", "parent": legal_name(session), "child": name, "reason": reason}
        is_known = reason == PARENT_DEAD
        _append(known, {**event, "ctx": {}} if is_known else _ending(name, reason, "cancelled", [], {}))
        return _child(known, name)


def children_of(
    session: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default"
) -> tuple[Child, ...]:
    """The children of a session, by name."""
    known = open_existing(key_for(session, tenant, agent), store)
    return tuple(_child(known, name) for name in sorted(_children(known)))


@contextmanager
def _opened(session: str, store: StoreLike, tenant: str, agent: str, settings: Settings | None) -> Iterator[Session]:
    known = open_existing(key_for(session, tenant, agent), store, settings)
    with defer_finalizers(), known.locked():
        yield known


def _children(known: Session) -> dict[str, Record]:
    return known.state.derived.children.known


def _child(known: Session, name: str) -> Child:
    child = _children(known)[name]
    return Child(name, child["agent"], child["session"], child["status"], child.get("summary", ""))


def _append(known: Session, event: Record) -> None:
    redacted = change_of(known.redaction)
    event = {name: redacted(value) if name in _TOLD else value for name, value in event.items()}
    known.append(new_turn_id(), [], [event], utc_now())


_TOLD = ("handoff", "result", "refs", "reason")
"""What an event says in words."""


def _ending(name: str, result: str, status: str, refs: list[Record], blobs: Mapping[str, Record]) -> Record:
    return {
        "type": "agent.child.result",
        "child": name,
        "status": status,
        "result": result,
        "refs": refs,
        "artifacts": [{"name": each, "blob": blob} for each, blob in blobs.items()],
        "ctx": {"blobs": list(blobs.values())} if blobs else {},
    }


def _check_new(known: Session, name: str, own: SessionKey) -> None:
    alike = next((each for each in _children(known) if each.casefold() == name.casefold()), None)
    if alike is not None:
        raise SettingsError(f"session {known.key.session!r} has a child {alike!r} already: name this one otherwise")
    if own == known.key:
        raise SettingsError(f"the child {name!r} needs a session of its own: name another child_session or child_agent")


def _check_active(known: Session, name: str) -> None:
    child = _children(known).get(name)
    if child is None:
        raise NotFound(f"session {known.key.session!r} has no child {name!r}: start it with start_child first")
    if child["status"] not in ("pending", "active"):
        raise SettingsError(f"the child {name!r} has ended already: it is {child['status']}")


def _check_name(kind: str, name: object) -> None:
    if not isinstance(name, str) or not is_legal_name(name):
        raise InvalidId(
            f"{str(name)[:80]!r} is no name for {kind}: it takes 1 to 64 letters, digits and . _ + -, a letter or "
            "digit first, and no .sock or .d at the end"
        )


def _check_size(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise SettingsError(f"{what} must be a text, not {type(text).__name__}")
    _check_bytes(what, len(text.encode("utf-8", "surrogatepass")), LONGEST_TEXT)


def _check_bytes(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise SettingsError(f"{what} has {size} bytes, of {limit} that it may have")


def _checked_refs(name: str, refs: Iterable[Mapping[str, Any]]) -> list[Record]:
    listed = [dict(ref) for ref in refs]
    text = b"".join(map(line, listed))
    _check_bytes(f"the list of refs of {name!r}", len(text), LONGEST_TEXT)
    for issue in record_issues("refs", text.decode()):
        raise SettingsError(f"ref {issue.at} of {name!r}: {issue.kind}, {issue.field} {issue.value!r}")
    return listed


def _checked_artifacts(artifacts: Mapping[str, bytes]) -> dict[str, bytes]:
    if len(artifacts) > MOST_ARTIFACTS:
        raise SettingsError(
            f"a result has {MOST_ARTIFACTS} artifacts at most, not {len(artifacts)}: pack some together"
        )
    for name, data in artifacts.items():
        _check_name("an artifact", name)
        if not isinstance(data, bytes):
            raise SettingsError(f"the artifact {name!r} must be bytes, not {type(data).__name__}")
        _check_bytes(f"the artifact {name!r}", len(data), LARGEST_ARTIFACT)
    if len({name.casefold() for name in artifacts}) < len(artifacts):
        raise SettingsError("two artifacts have names that differ in case only, which not every file system can keep")
    return dict(artifacts)
