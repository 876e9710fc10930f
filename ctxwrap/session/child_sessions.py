"""Child sessions: what a parent session hands to other agents, and what they return."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.errors import InvalidId, NotFound, SettingsError, unknown_name
from ctxwrap.redaction.redactor import redaction_function
from ctxwrap.session.abi import is_legal_name, legal_name, record_issues
from ctxwrap.session.append_only_file import line
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.settings import Settings
from ctxwrap.types import Record, SessionKey

LONGEST_TEXT = 1 << 20
"""Limit in bytes of a handoff, of a result, and of all refs of a result."""

LARGEST_ARTIFACT = 64 << 20
"""Limit in bytes."""

MOST_ARTIFACTS = 256
"""Limit per result."""

PARENT_DEAD = "parent_dead"
"""The only cancellation reason that the ABI defines."""

ChildStatus = Literal["done", "error", "cancelled"]


class Child(NamedTuple):
    """A child session as its parent knows it: the parent never reads the child's log."""

    name: str
    agent: str
    session: str
    """In the same store, with the parent's tenant."""
    status: str
    """pending, active, done, error or cancelled."""
    summary: str = ""
    """The start of its result, if any; the whole result is in `context/child/<name>/`."""


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
    """Record that a child session starts, and its handoff of up to 1 MB.

    By default the child has the parent's agent and the session id `<session>/<name>`. Use the returned names for its
    calls: `ctxwrap.using(session=child.session, agent=child.agent)`.
    """
    own = key_for(child_session or f"{session}/{name}", tenant, child_agent or agent)
    _check_name("a child", name)
    _check_size(f"the handoff of {name!r}", handoff)
    with _locked(key_for(session, tenant, agent), store, settings) as known:
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
    """Record the result of a child session, with references and artifacts.

    A result and its refs have up to 1 MB each, an artifact 64 MB; there are up to 256 artifacts. Refs are records
    `{"id", "path", "kind", "summary"}` of kind file, artifact, tool_output, swap or child_result.
    """
    listed, files = _checked_refs(name, refs), _checked_artifacts(artifacts or {})
    _check_size(f"the result of {name!r}", result)
    if status not in get_args(ChildStatus):
        raise unknown_name("status", status, get_args(ChildStatus))
    with _locked(key_for(session, tenant, agent), store, settings) as known:
        _check_active(known, name)
        _append(
            known, _result_event(name, result, status, listed, {each: known.keep(data) for each, data in files.items()})
        )
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
    """Record that a child session is cancelled; a reason of your own is stored as its result."""
    _check_size(f"the reason to cancel {name!r}", reason)
    with _locked(key_for(session, tenant, agent), store, settings) as known:
        _check_active(known, name)
        event = {"type": "agent.child.cancel", "parent": legal_name(session), "child": name, "reason": reason}
        in_abi = reason == PARENT_DEAD
        _append(known, {**event, "ctx": {}} if in_abi else _result_event(name, reason, "cancelled", [], {}))
        return _child(known, name)


def children_of(
    session: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default"
) -> tuple[Child, ...]:
    """Return the child sessions of a session, by name."""
    known = open_existing(key_for(session, tenant, agent), store)
    return tuple(_child(known, name) for name in sorted(_children(known)))


@contextmanager
def _locked(key: SessionKey, store: StoreLike, settings: Settings | None) -> Iterator[Session]:
    known = open_existing(key, store, settings)
    with defer_finalizers(), known.locked():
        yield known


def _children(known: Session) -> dict[str, Record]:
    return known.state.children.known


def _child(known: Session, name: str) -> Child:
    child = _children(known)[name]
    return Child(name, child["agent"], child["session"], child["status"], child.get("summary", ""))


def _append(known: Session, event: Record) -> None:
    redact = redaction_function(known.redaction)
    event = {name: redact(value) if name in _TEXTS else value for name, value in event.items()}
    known.append(known.new_turn_id(), [], [event], known.clock())


_TEXTS = ("handoff", "result", "refs", "reason")
"""Fields of an event that are redacted."""


def _result_event(name: str, result: str, status: str, refs: list[Record], blobs: Mapping[str, Record]) -> Record:
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
        raise SettingsError(f"session {known.key.session!r} already has a child {alike!r}: use another name")
    if own == known.key:
        raise SettingsError(f"the child {name!r} would be its own parent: use another child_session or child_agent")


def _check_active(known: Session, name: str) -> None:
    child = _children(known).get(name)
    if child is None:
        raise NotFound(f"session {known.key.session!r} has no child {name!r}: start it with start_child first")
    if child["status"] not in ("pending", "active"):
        raise SettingsError(f"the child {name!r} has already ended: it is {child['status']}")


def _check_name(kind: str, name: object) -> None:
    if not isinstance(name, str) or not is_legal_name(name):
        raise InvalidId(
            f"{str(name)[:80]!r} cannot name {kind}: use 1 to 64 letters, digits and . _ + -, starting with a letter "
            "or digit, not ending with .sock or .d"
        )


def _check_size(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise SettingsError(f"{what} must be a str, not {type(text).__name__}")
    _check_bytes(what, len(text.encode("utf-8", "surrogatepass")), LONGEST_TEXT)


def _check_bytes(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise SettingsError(f"{what} has {size} bytes, the limit is {limit}")


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
            f"a result has up to {MOST_ARTIFACTS} artifacts, not {len(artifacts)}: combine some of them"
        )
    for name, data in artifacts.items():
        _check_name("an artifact", name)
        if not isinstance(data, bytes):
            raise SettingsError(f"the artifact {name!r} must be bytes, not {type(data).__name__}")
        _check_bytes(f"the artifact {name!r}", len(data), LARGEST_ARTIFACT)
    if len({name.casefold() for name in artifacts}) < len(artifacts):
        raise SettingsError("two artifacts have names that differ only in case, which some file systems cannot store")
    return dict(artifacts)
