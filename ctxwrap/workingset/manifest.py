"""The manifest: the contents of `working-set.yml` as checked values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.errors import InvalidManifest
from ctxwrap.kinds import KINDS, offered_kinds
from ctxwrap.tokens.measure import STRATEGIES, Strategy
from ctxwrap.workingset import safe_yaml
from ctxwrap.workingset.safe_yaml import has_controls, mapping_in

PROTOCOL = "CONTEXT-ASSEMBLY/0.1"
NAME = "working-set.yml"
OFFER = "offer://"
"""The prefix of offers. No file has such a path, because one of its parts is empty."""
MAX_FILES = 200

FileRole = Literal["system", "developer", "user", "context"]
ROLES: tuple[str, ...] = get_args(FileRole)

Hand = Literal["operator", "model", "orchestrator"]
"""Who added a file to the working set."""
HANDS: tuple[str, ...] = get_args(Hand)

_FILE = KINDS["working_set"].evidence.kind
_MAX_TOKENS = 28_000
_RESERVED = 4_000
FOCUS = 0.8
"""The default priority of files under `focus`."""


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


class Fault(NamedTuple):
    """An error in a manifest that does not prevent its use."""

    path: str
    """The path of the entry that is ignored, if it has one."""
    reason: str
    blocking: bool = False
    """Whether the ignored entry may be a vital file."""


@dataclass(frozen=True, slots=True)
class FileBudget:
    max_tokens: int = _MAX_TOKENS
    reserved_for_response: int = _RESERVED

    @property
    def effective(self) -> int:
        return max(0, self.max_tokens - self.reserved_for_response)


@dataclass(frozen=True, slots=True)
class WorkingFile:
    """An entry of the working set."""

    path: str
    priority: float
    role: FileRole = "context"
    truncate_strategy: Strategy = "end"
    max_lines: int | None = None
    why: str = ""
    added_by: Hand = "operator"
    pin: bool = False
    """Whether only the operator may demote or remove it."""
    turn: int | None = None
    """The turn that added it."""
    visibility: tuple[str, ...] | None = None
    """The targets that it names, if any."""
    version: str = ""
    kind: str = "working_set"
    """The kind of pack item."""
    text: str | None = None
    """Its content, if it is not in a file."""
    source: Mapping[str, Any] = field(default_factory=_nothing, compare=False, repr=False)
    """The entry as it was written."""

    @property
    def is_vital(self) -> bool:
        """Whether the model needs it for every answer."""
        return self.priority >= 1 or self.truncate_strategy == "never"

    @property
    def is_fixed(self) -> bool:
        """Whether only the operator may change it: it is vital, pinned, or an instruction."""
        return self.is_vital or self.pin or self.role in ("system", "developer")


@dataclass(frozen=True, slots=True)
class Metadata:
    last_updated: str = ""
    assembled_by: str = ""
    skill: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """Lines of the boot header that the manifest sets; the default of each is empty."""

    root: str = ""
    output_sink: str = ""
    tool_contract: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    files: tuple[WorkingFile, ...] = ()
    budget: FileBudget = FileBudget()
    metadata: Metadata = Metadata()
    header: Header = Header()
    faults: tuple[Fault, ...] = ()
    """Errors that do not prevent its use."""
    source: Mapping[str, Any] = field(default_factory=_nothing, compare=False, repr=False)
    """The whole document as it was written."""

    def file(self, path: str) -> WorkingFile | None:
        return next((file for file in self.files if file.path == path), None)

    def with_file(self, new: WorkingFile) -> "Manifest":
        """Replace the file of the same path, or append it."""
        if self.file(new.path) is None:
            return replace(self, files=(*self.files, new))
        return replace(self, files=tuple(new if file.path == new.path else file for file in self.files))

    def without_file(self, path: str) -> "Manifest":
        """Remove all entries of a path, also unusable ones."""
        files = tuple(file for file in self.files if file.path != path)
        return replace(self, files=files, faults=tuple(fault for fault in self.faults if fault.path != path))


def read_manifest(text: str | bytes) -> Manifest:
    """Parse a manifest; raises InvalidManifest if the text as a whole is invalid.

    An invalid field or entry becomes a fault, and the rest is used.
    """
    source = mapping_in(text)
    faults: list[Fault] = []
    if source.get("protocol", PROTOCOL) != PROTOCOL:
        faults.append(Fault("", f"protocol is {safe_yaml.shown(source['protocol'])}; it is read as {PROTOCOL}"))
    return Manifest(
        files=_files(source, faults),
        budget=_budget(_part(source, "budget", faults), faults),
        metadata=_metadata(_part(source, "metadata", faults)),
        header=_header(_part(source, "boot_header", faults), faults),
        faults=tuple(faults),
        source=MappingProxyType(source),
    )


def _files(source: Mapping[str, Any], faults: list[Fault]) -> tuple[WorkingFile, ...]:
    listed: list[tuple[Any, float | None]] = [(entry, None) for entry in _entries(source, "files")]
    listed += [(entry, FOCUS) for entry in _entries(source, "focus")]
    if len(listed) > MAX_FILES:
        raise InvalidManifest(f"it lists more than {MAX_FILES} files; remove some")
    files: dict[str, WorkingFile] = {}
    for number, (entry, usual) in enumerate(listed, 1):
        try:
            file = read_entry(entry, usual)
        except safe_yaml.Wrong as wrong:
            faults.append(_left_out(number, entry, str(wrong)))
            continue
        if file.path in files:
            faults.append(Fault("", f"{file.path!r} is listed twice; the first entry counts"))
        files.setdefault(file.path, file)
    return tuple(files.values())


def _entries(source: Mapping[str, Any], key: str) -> list[Any]:
    """The list under `files` or `focus`."""
    found = source.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise InvalidManifest(f"{key!r} is no list; write one entry per line, each behind '- '")
    return found


def read_entry(entry: Any, usual: float | None = None) -> WorkingFile:
    """Parse an entry; `usual` is the default of its priority, if there is one."""
    if isinstance(entry, str) and usual is not None:
        entry = {"path": entry}
    if not isinstance(entry, dict):
        raise safe_yaml.Wrong("it must be a mapping with path and priority")
    given = entry.get("priority")
    if given is None and usual is None:
        raise safe_yaml.Wrong("it has no priority; give it one from 0 to 1")
    lines, turn = entry.get("max_lines"), entry.get("turn")
    kind = safe_yaml.choice("kind", entry.get("kind"), (_FILE, *offered_kinds()), _FILE)
    hand = "operator" if entry.get("added_by") == "user" else entry.get("added_by")
    return WorkingFile(
        path=safe_yaml.path(entry.get("path")),
        priority=safe_yaml.priority(usual if given is None else given),
        role=safe_yaml.choice("role", entry.get("role"), ROLES, "context"),
        truncate_strategy=safe_yaml.choice("truncate_strategy", entry.get("truncate_strategy"), STRATEGIES, "end"),
        max_lines=None if lines is None else safe_yaml.count("max_lines", lines, least=1),
        why=safe_yaml.text(entry.get("why")),
        added_by=safe_yaml.choice("added_by", hand, HANDS, "operator"),
        pin=entry.get("pin") is True,
        turn=None if turn is None else safe_yaml.count("turn", turn),
        visibility=safe_yaml.targets(entry.get("visibility")),
        version=safe_yaml.text(entry.get("version")),
        kind="working_set" if kind == _FILE else kind,
        text=safe_yaml.inline_text(entry.get("text")),
        source=MappingProxyType(entry),
    )


def _left_out(number: int, entry: Any, why: str) -> Fault:
    path = entry.get("path") if isinstance(entry, dict) else entry
    shown = path if isinstance(path, str) and not has_controls(path) else ""
    return Fault(shown, f"entry {number} of the manifest is not used: {why}", _may_be_vital(entry))


def _may_be_vital(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    try:
        return entry.get("truncate_strategy") == "never" or safe_yaml.number("priority", entry.get("priority")) >= 1
    except safe_yaml.Wrong:
        return False


def _part(source: Mapping[str, Any], key: str, faults: list[Fault]) -> Mapping[str, Any]:
    found = source.get(key)
    if found is None or isinstance(found, dict):
        return found or {}
    faults.append(Fault("", f"{key} is no mapping; it is not used"))
    return {}


def _budget(given: Mapping[str, Any], faults: list[Fault]) -> FileBudget:
    most = _tokens(given, "max_tokens", _MAX_TOKENS, faults)
    reserved = _tokens(given, "reserved_for_response", min(_RESERVED, most // 2), faults)
    budget = FileBudget(most, reserved)
    if reserved > most:
        faults.append(Fault("", f"reserved_for_response ({reserved}) is more than max_tokens ({most}): none are left"))
    if given.get("effective") is not None and _tokens(given, "effective", -1, faults) != budget.effective:
        reason = f"effective is {safe_yaml.shown(given['effective'])}, but max - reserved is {budget.effective}"
        faults.append(Fault("", f"{reason}; that is used"))
    return budget


def _tokens(given: Mapping[str, Any], key: str, usual: int, faults: list[Fault]) -> int:
    if given.get(key) is None:
        return usual
    try:
        return safe_yaml.count(key, given[key])
    except safe_yaml.Wrong as wrong:
        if usual >= 0:
            faults.append(Fault("", f"{wrong}; {usual} is used"))
        return usual


def _metadata(given: Mapping[str, Any]) -> Metadata:
    return Metadata(*(safe_yaml.text(given.get(key)) for key in ("last_updated", "assembled_by", "skill", "notes")))


def _header(given: Mapping[str, Any], faults: list[Fault]) -> Header:
    known = Header.__dataclass_fields__
    faults += [
        Fault("", f"boot_header has no line {safe_yaml.shown(key)}; there are {', '.join(known)}")
        for key in given
        if key not in known
    ]
    return Header(**{key: safe_yaml.text(given.get(key)) for key in known})
