"""Requests of a model to change the working set, each granted or refused with a reason."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ctxwrap.errors import InvalidManifest
from ctxwrap.tokens.measure import Strategy
from ctxwrap.workingset import safe_yaml
from ctxwrap.workingset.manifest import MAX_FILES, NAME, Hand, Manifest, WorkingFile
from ctxwrap.workingset.reader import COLD, HOT
from ctxwrap.workingset.safe_yaml import Pairs, checked_text, has_controls, pairs_of, without_doubles

ADD, REMOVE, ADJUST = "add_to_working_set", "remove_from_working_set", "adjust_priority"
ACTIONS = (ADD, REMOVE, ADJUST)

_USUAL_PRIORITY = 0.5
_LONGEST_WHY = 500
_LONGEST_NAME = 1025
"""For an action or a path: one more than a path may have, so a path that is too long stays so."""
_MOST_READ = 50
"""Requests beyond these are only counted."""
_FENCE = "```"
_BETWEEN = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of a model's requests."""

    roots: tuple[str, ...] = ("",)
    """Directories, relative to the root, whose files it may request; hidden ones only if they are listed."""
    max_priority: float = 0.8
    max_files: int = 32
    """The most files that it may have in the working set."""
    max_requests: int = 20
    """The most requests at a time."""
    operators_too: bool = False
    """Whether it may remove and re-prioritise files of the operator, for its own session."""
    reserved: tuple[str, ...] = (NAME, HOT, COLD)
    """Prefixes of file names, in any directory, that belong to the operator: they define working sets."""


class FileRequest(NamedTuple):
    """A request as the model wrote it."""

    action: str
    path: str
    why: str = ""
    given: tuple[tuple[str, Any], ...] = ()
    """All fields."""
    fault: str = ""
    """Why it could not be parsed."""


class Decision(NamedTuple):
    action: str
    path: str
    granted: bool
    reason: str
    why: str = ""
    priority: float | None = None
    """The new priority of the file."""
    by: Hand = "model"
    truncate_strategy: Strategy | None = None
    max_lines: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value is not None}


class Outcome(NamedTuple):
    manifest: Manifest
    decisions: tuple[Decision, ...]


def requests_in_json(value: Any) -> tuple[FileRequest, ...]:
    """The requests in a JSON value: a list, a single request, or a text that contains requests.

    An entry that is no request becomes one with a fault; those beyond the limit become one with a fault together.
    """
    if isinstance(value, str):
        return requests_in_text(value) or (_NO_REQUEST,)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    read = [each for entry in listed[:_MOST_READ] for each in _requests(entry)]
    unread = len(listed) - _MOST_READ
    return (
        (*read, FileRequest("", "", fault=f"{unread} more requests were not looked at")) if unread > 0 else tuple(read)
    )


def _requests(entry: Any) -> list[FileRequest]:
    try:
        return [_request(each) for each in _mappings(_as_pairs(entry))] or [_NO_REQUEST]
    except InvalidManifest as refused:
        return [_unread(refused)]


def _as_pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs([(str(key), _as_pairs(part)) for key, part in value.items()])
    return [_as_pairs(part) for part in value] if isinstance(value, list) else value


def requests_in_text(text: str) -> tuple[FileRequest, ...]:
    """The requests in a text, as YAML or JSON, with or without code fences.

    A block that names an action and cannot be parsed becomes a request with a fault.
    """
    found: list[FileRequest] = []
    for block in _blocks(text):
        try:
            values = _values(block)
            found += [_request(each) for value in values for each in _mappings(value)]
        except RecursionError:
            found.append(FileRequest("", "", fault="the request cannot be read: it is nested too deep"))
        except InvalidManifest as refused:
            found.append(_unread(refused))
    return tuple(found)


def decide_requests(
    manifest: Manifest, requests: Sequence[FileRequest], limits: RequestLimits | None = None, turn: int | None = None
) -> Outcome:
    """The manifest with the granted requests, and the decision about each request."""
    limits = limits or RequestLimits()
    decisions = []
    for number, request in enumerate(requests, 1):
        try:
            if number > limits.max_requests:
                raise safe_yaml.Wrong(f"more than {limits.max_requests} requests at a time")
            manifest = _granted(manifest, request, limits, turn)
        except safe_yaml.Wrong as wrong:
            decisions.append(Decision(request.action, request.path, False, str(wrong), request.why))
        else:
            decisions.append(_grant(request, manifest.file(safe_yaml.path(request.path))))
    return Outcome(manifest, tuple(decisions))


def _grant(request: FileRequest, file: WorkingFile | None) -> Decision:
    granted = Decision(request.action, request.path, True, "within its limits", request.why)
    if file is None:
        return granted
    strategy = None if file.truncate_strategy == "end" else file.truncate_strategy
    return granted._replace(priority=file.priority, truncate_strategy=strategy, max_lines=file.max_lines)


def with_grants(manifest: Manifest, own: Mapping[str, Mapping[str, Any]], limits: RequestLimits) -> Manifest:
    """The operator's manifest with the files that a session's model was granted, by path.

    Each grant is decided again, because the manifest and the limits may have changed.
    """
    files = tuple(file for file in manifest.files if file.added_by == "operator" or not _is_reserved(file.path, limits))
    manifest = replace(manifest, files=files)
    for path, grant in own.items():
        action = REMOVE if grant.get("removed") else ADJUST if manifest.file(path) else ADD
        request = FileRequest(action, path, str(grant.get("why") or "granted before"), tuple(grant.items()))
        with suppress(safe_yaml.Wrong):
            manifest = _granted(manifest, request, limits, grant.get("turn"))
    return manifest


def _granted(manifest: Manifest, request: FileRequest, limits: RequestLimits, turn: int | None) -> Manifest:
    if request.fault:
        raise safe_yaml.Wrong(request.fault)
    if request.action not in ACTIONS:
        raise safe_yaml.Wrong(f"there is no such action; there are {', '.join(ACTIONS)}")
    if not request.why.strip():
        raise safe_yaml.Wrong("it has no `why`; every request needs one")
    if has_controls(request.why):
        raise safe_yaml.Wrong("its `why` has control characters")
    path = safe_yaml.path(request.path)
    _check_root(path, limits.roots)
    if _is_reserved(path, limits):
        raise safe_yaml.Wrong("it is a file in which the operator keeps a working set, or a session's own")
    if request.action == ADD:
        return _with_new(manifest, path, request, limits, turn)
    known = manifest.file(path)
    if known is None:
        raise safe_yaml.Wrong("it is not in the working set")
    if known.is_fixed or (known.added_by == "operator" and not limits.operators_too):
        raise safe_yaml.Wrong("the operator put it there; only the operator changes that")
    if request.action == REMOVE:
        return manifest.without_file(path)
    priority = _priority(dict(request.given).get("priority"), limits)
    return manifest.with_file(replace(known, priority=priority))


def _with_new(manifest: Manifest, path: str, request: FileRequest, limits: RequestLimits, turn: int | None) -> Manifest:
    given = dict(request.given)
    if manifest.file(path) is not None:
        raise safe_yaml.Wrong(f"it is in the working set already; use {ADJUST}")
    safe_yaml.choice("role", given.get("role"), ("context",), "context")
    strategy = safe_yaml.choice("truncate_strategy", given.get("truncate_strategy"), ("start", "middle", "end"), "end")
    lines = given.get("max_lines")
    own = sum(file.added_by == "model" for file in manifest.files)
    if own >= limits.max_files or len(manifest.files) >= MAX_FILES:
        raise safe_yaml.Wrong(f"the working set is full ({limits.max_files} files by the model); remove one first")
    priority = _priority(given.get("priority", _USUAL_PRIORITY), limits)
    new = WorkingFile(
        path,
        priority,
        truncate_strategy=strategy,
        max_lines=None if lines is None else safe_yaml.count("max_lines", lines, least=1),
        why=request.why,
        added_by="model",
        turn=turn,
    )
    return manifest.with_file(new)


def _priority(value: Any, limits: RequestLimits) -> float:
    priority = safe_yaml.priority(value)
    if priority > limits.max_priority:
        raise safe_yaml.Wrong(f"priority must be at most {limits.max_priority:g}, not {priority:g}")
    return priority


def _check_root(path: str, roots: Iterable[str]) -> None:
    parts = path.split("/")
    for root in roots:
        above = [part for part in root.split("/") if part]
        below = parts[len(above) :]
        if parts[: len(above)] == above and below and not any(part.startswith(".") for part in below):
            return
    raise safe_yaml.Wrong("it is outside of the directories that the model may name files of, or hidden")


def _is_reserved(path: str, limits: RequestLimits) -> bool:
    """Whether it is a manifest, a hint file, or inside of a session: a store may be below the root."""
    *parents, name = path.casefold().split("/")
    layout = [(parents[at : at + 1], parents[at + 2 : at + 3]) for at in range(len(parents))]
    return (["agent"], ["session"]) in layout or any(name.startswith(each.casefold()) for each in limits.reserved)


def _blocks(text: str) -> Iterator[str]:
    """The code blocks of a text that name an action, or the whole text if it has no code blocks."""
    if not any(action in text for action in ACTIONS):
        return
    parts: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.lstrip().startswith(_FENCE):
            parts.append([])
        else:
            parts[-1].append(line)
    inside = parts[1::2] if len(parts) > 1 else parts
    for block in map("\n".join, inside):
        if any(action in block for action in ACTIONS):
            yield block


def _values(block: str) -> list[Any]:
    text = checked_text(block).strip()
    return (_json_values(text) if text.startswith(("{", "[")) else None) or pairs_of(text)


def _json_values(text: str) -> list[Any] | None:
    """A sequence of JSON values, or None."""
    decoder = json.JSONDecoder(object_pairs_hook=Pairs, parse_constant=str)
    found = []
    at = 0
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            found.append(value)
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
    except (ValueError, RecursionError):
        return None
    return found


def _mappings(value: Any) -> Iterator[Pairs]:
    """Every mapping with an action; one with repeated keys counts as several."""
    if isinstance(value, Pairs):
        for each in _apart(value):
            keys = {key for key, _ in each}
            if "action" in keys:
                yield each
            else:
                for key, part in each:
                    is_action = key in ACTIONS and isinstance(part, Pairs)
                    yield from [Pairs([("action", key), *part])] if is_action else _mappings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _mappings(part)


def _apart(pairs: Pairs) -> list[Pairs]:
    groups = [Pairs()]
    seen: set[str] = set()
    for key, value in pairs:
        if key in seen:
            groups.append(Pairs())
            seen.clear()
        seen.add(key)
        groups[-1].append((key, value))
    return groups


def _request(pairs: Pairs) -> FileRequest:
    given = without_doubles(pairs)
    action, path = (_kept(given.get(name), _LONGEST_NAME) for name in ("action", "path"))
    return FileRequest(action, path, _kept(given.get("why"), _LONGEST_WHY), tuple(given.items()))


def _unread(why: InvalidManifest) -> FileRequest:
    return FileRequest("", "", fault=f"the request cannot be read: {why}")


def _kept(value: Any, longest: int) -> str:
    """A text that the log can hold."""
    return safe_yaml.text(value)[:longest].encode("utf-8", "backslashreplace").decode()


_NO_REQUEST = FileRequest("", "", fault=f"it is no request; one has an action, such as {ADD}, a path and a why")
