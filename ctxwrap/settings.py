"""The settings of ctxwrap, with their defaults."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from importlib.util import find_spec
from math import inf, isnan
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, get_args, runtime_checkable

from ctxwrap.errors import QuotaExceeded, SettingsError, unknown_name
from ctxwrap.kinds import check_rules, default_share
from ctxwrap.redaction import Redaction
from ctxwrap.redaction.visibility import VisibilityRules

Mode = Literal["enabled", "disabled", "readonly", "shadow"]
MODES: tuple[str, ...] = get_args(Mode)

Purpose = Literal["aux"]
PURPOSES: tuple[str, ...] = get_args(Purpose)


class Quotas(NamedTuple):
    """Limits of the memory service and of wrapped chats. For a chat, a memory is a session and an entry a message.

    0 means no limit. System messages do not count.
    """

    memories: int = 10_000
    """The most memories of a tenant, in all vaults; in chats, the sessions of all its agents."""
    entries: int = 1_000_000
    """The most entries of a memory."""
    characters: int = 1_000_000_000
    """The most characters of all entries of a memory together."""
    entry_characters: int = 200_000
    """The most characters of one entry."""

    def check_memory(self, there: int) -> None:
        if self.memories and there >= self.memories:
            raise QuotaExceeded(
                f"the tenant has {there} memories, and the limit is {self.memories}: use one of them, or raise "
                "Quotas.memories"
            )

    def check_entries(self, entries: int, characters: int, lengths: Sequence[int]) -> None:
        """Raise QuotaExceeded if new entries of these lengths do not fit."""
        longest, added = max(lengths, default=0), sum(lengths)
        if self.entry_characters and longest > self.entry_characters:
            raise QuotaExceeded(
                f"an entry has {longest} characters, and the limit is {self.entry_characters}: shorten it, or raise "
                "Quotas.entry_characters"
            )
        if self.entries and entries + len(lengths) > self.entries:
            raise QuotaExceeded(
                f"there are {entries} entries, the limit is {self.entries}, and {len(lengths)} more do not fit: begin "
                "another session or memory, or raise Quotas.entries"
            )
        if self.characters and characters + added > self.characters:
            raise QuotaExceeded(
                f"there are {characters} characters, the limit is {self.characters}, and {added} more do not fit: "
                "begin another session or memory, or raise Quotas.characters"
            )


@dataclass(frozen=True, slots=True)
class PerTier:
    """One number for each tier of memory."""

    core: float
    working: float
    ephemeral: float


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise unknown_name(name, value, choices)


def _evidence_place(value: object) -> object:
    """The name of the place, also for True and False."""
    place = ("project", "log")[value] if isinstance(value, bool) else value
    _check_choice("evidence", place, ("project", "log"))
    return place


def _check_flag(name: str, value: object, *others: object) -> None:
    if not isinstance(value, bool) and value not in others:
        *known, last = map(repr, (True, False, *others))
        raise SettingsError(f"{name} must be {', '.join(known)} or {last}, not {value!r}")


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SettingsError(f"{name} must be a whole number from 0 up, not {value!r}")


def _check_number(name: str, value: object, *, may_be_infinite: bool = False) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value)
    if not is_number or (value in (inf, -inf) and not may_be_infinite):
        raise SettingsError(f"{name} must be a number, not {value!r}")


def _check_path(name: str, value: object, what: str) -> None:
    if value is not None and not (isinstance(value, str) and value):
        raise SettingsError(f"{name} must be the path of {what}, not {value!r}")


def _check_clock(value: object) -> None:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise SettingsError(f"clock must have a time zone, such as datetime(..., tzinfo=UTC), not {value!r}")
    if not (value is None or isinstance(value, datetime) or callable(value)):
        raise SettingsError(f"clock must be a datetime, or a function that returns one, not {value!r}")


def _check_quotas(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, Quotas):
        raise SettingsError(f"quotas must be Quotas(...), not {value!r}")
    for name, limit in value._asdict().items():
        _check_count(f"quotas.{name}", limit)


def _check_per_tier(name: str, value: object) -> None:
    if not isinstance(value, PerTier):
        raise SettingsError(f"{name} must be PerTier(core=..., working=..., ephemeral=...), not {value!r}")
    for tier, number in asdict(value).items():
        _check_number(f"{name}.{tier}", number, may_be_infinite=name in ("half_lives", "least_stay", "most_stay"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRules:
    """The numbers by which memory ages. Times are in rounds; a touch is a use of an item."""

    half_lives: PerTier = PerTier(core=inf, working=24, ephemeral=8)
    """Rounds without use after which an item is worth half as much; core items do not age."""

    least_stay: PerTier = PerTier(core=inf, working=32, ephemeral=1)
    """Rounds that an item stays in its tier at least, whatever its decay; core items do not leave by age."""

    most_stay: PerTier = PerTier(core=inf, working=64, ephemeral=24)
    """Rounds that an item stays in its tier at most without use, whatever decay the model writes."""

    growth: float = 0.5
    """The exponent, 0 to 1, by which an item's half-life grows with its number of touches; 0 turns growth off."""

    longest: float = 4096
    """The longest half-life that an item can reach, in rounds."""

    thresholds: PerTier = PerTier(core=0.5, working=0.75, ephemeral=0.9)
    """The decay, between 0 and 1, at which an item moves to the next lower tier, or from the last tier to swap."""

    working_at: float = 3
    """The number of touches that promotes an item to working."""

    core_at: float = 8
    """The number of touches that promotes an item to core."""

    capacity: PerTier = PerTier(core=200, working=150, ephemeral=100)
    """The most items of a tier; the least valuable ones go to swap."""

    restated: float = 1.0
    """The part of an item's decay, above 0 and up to 1, that is removed when the user mentions it; also a touch."""

    echoed: float = 0.5
    """The part, above 0 and up to 1, that is removed when the reply uses the item or changes its content."""

    rehydrated: float = 0.5
    """The most decay of an item that was just recalled from swap."""

    def __post_init__(self) -> None:
        for name in ("half_lives", "least_stay", "most_stay", "thresholds", "capacity"):
            _check_per_tier(name, getattr(self, name))
        for name in ("growth", "longest", "working_at", "core_at", "restated", "echoed", "rehydrated"):
            _check_number(name, getattr(self, name))
        for tier, items in asdict(self.capacity).items():
            _check_count(f"capacity.{tier}", items)
        for name, (holds, what) in self._bounds().items():
            if not holds:
                raise SettingsError(f"{name} must be {what}, not {getattr(self, name)!r}")

    def _bounds(self) -> dict[str, tuple[bool, str]]:
        lives, limits = self.half_lives, self.thresholds
        return {
            "half_lives": (lives.core >= lives.working >= lives.ephemeral > 0, "above 0, and longest in core"),
            "growth": (0 <= self.growth <= 1, "from 0 to 1"),
            "least_stay": (min(asdict(self.least_stay).values()) >= 0, "from 0 up"),
            "most_stay": (min(asdict(self.most_stay).values()) >= 1, "from 1 up"),
            "longest": (self.longest >= lives.working, "no shorter than the half-life of working"),
            "thresholds": (
                0 < limits.core <= limits.working <= limits.ephemeral < 1,
                "between 0 and 1, and lowest in core",
            ),
            "working_at": (self.working_at > 1, "above 1, the touch that every item has"),
            "core_at": (self.core_at >= self.working_at, "no less than working_at"),
            "restated": (0 < self.restated <= 1, "above 0 and up to 1"),
            "echoed": (0 < self.echoed <= 1, "above 0 and up to 1"),
            "rehydrated": (0 <= self.rehydrated < limits.ephemeral, "from 0 to below the threshold of ephemeral"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The most that each kind of pack item may take, as a part of the budget; `ctxwrap.kinds` has the defaults."""

    pinned: float = default_share("pinned")
    """Pinned texts."""

    summary: float = default_share("summary")
    """The summary and the context document."""

    memory: float = default_share("memory")
    """Memory items of all kinds together."""

    user: float = default_share("user_items")
    """Memory items of the user, beside those of the session."""

    team: float = default_share("team_items")
    """Memory items of the team."""

    working_set: float = default_share("working_set")
    """The files of the working set, and offers."""

    retrieved: float | None = None
    """Passages of earlier messages that are relevant to the newest one; None for a part that depends on the budget."""

    children: float = default_share("children")
    """Results of child sessions."""

    recent: float = default_share("recent_messages")
    """Reserved for recent messages, which may also take all that the other kinds leave."""

    def __post_init__(self) -> None:
        for name, share in asdict(self).items():
            if share is None and name == "retrieved":
                continue
            _check_number(name, share)
            if not 0 <= share <= 1:
                raise SettingsError(f"{name} must be from 0 to 1, not {share!r}")


@runtime_checkable
class SummaryWriter(Protocol):
    """Writes summaries, as a `Summariser` does."""

    model: str
    every: int
    max_tokens: int

    def ask(self, rules: str, texts: str) -> str:
        """The model's answer to `rules` about `texts`; any error means that there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    context_mode: Mode = "enabled"
    """The mode of calls that name none: enabled, disabled, readonly or shadow."""

    record: bool = True
    """Write calls in `disabled` mode to the log of the session they name."""

    strict: bool = False
    """Raise ctxwrap's own errors before the provider is called; if False, the call continues without context."""

    history: Literal["log", "caller"] = "log"
    """`log` adds recent messages of the log before the caller's messages; `caller` adds none."""

    budget: int = 32_000
    """The most tokens of a request, unless the model's window is smaller; 0 means the window is the only limit."""

    shares: Shares = Shares()
    """How the budget is shared between memory, files, history and retrieved messages."""

    windows: Mapping[str, int] = field(default_factory=dict)
    """Context windows in tokens, by model: for models that no table has, or to use less than the window."""

    budget_messages: int = 20
    """The most tokens for recent messages, memory and retrieved messages together, with their instructions: as many as
    the last so many messages of the conversation have; 0 means no such limit. Short messages get more retrieved."""

    history_tokens: int = 10_000
    """The most tokens of recent messages, whether from the caller or from the log."""

    retrieval: bool = True
    """Search the log for earlier messages that are relevant to the newest one, and show them."""

    search: Literal["session", "user"] = "session"
    """Where to search: the session's own log, or also the other sessions of the user that the call names."""

    embeddings: bool = False
    """Search by meaning as well as by words; needs the extra `embeddings`."""

    embedder: Any = None
    """Your own model for search by meaning: a function from a list of texts to their vectors, sync or async, or
    `(client, model)` for a client's embeddings API. Messages are embedded in the background."""

    cache_marks: bool = True
    """Mark the stable part of requests, for providers that cache only marked prefixes."""

    cache_key: bool | None = None
    """Send a `prompt_cache_key` for the session, for providers that take a key instead of marks.

    None sends it only to OpenAI itself. True sends it to every provider that is called through OpenAI's SDK or litellm;
    these must accept it.
    """

    snapshot_reserve: int = 1024
    """Tokens added to a small output limit of the caller, so that the trailer does not cut the reply; 0 adds none."""

    snapshot: Literal["delta", "full"] = "delta"
    """`delta` asks the model for new and changed memory items only; `full` asks for all items in each reply."""

    foreign_core: bool = False
    """Allow a turn that saw tool, file or retrieved text, or text derived from such, to write core memory."""

    max_reasks: int = 1
    """How often the model is asked again, in separate calls, for a snapshot that could not be used; 0 means never."""

    on_missing: Literal["rules", "keep", "reask"] = "rules"
    """What to do with a reply without a snapshot: `rules` read the user's plain statements, `keep` leaves memory as it
    is, `reask` asks the model for a snapshot in a separate call."""

    evolution: Literal["decay", "off"] = "decay"
    """`decay` lets memory items decay, move between tiers and be reinforced; `off` keeps what the model wrote."""

    memory: MemoryRules = MemoryRules()
    """The numbers by which memory ages: half-lives, thresholds, capacities."""

    team_writes: bool = False
    """Let conversations change the memory of the team that they name; if False, they only read it."""

    working_set: str | None = None
    """The path of a `working-set.yml`; its files are added to every call as far as they fit the budget."""

    working_set_updates: bool | Literal["all"] = True
    """Let the conversation change the working set; if False, it is what its manifest says.

    With True the model may ask for files below the manifest's directory that are not hidden, priorities change with use
    and hints, and large tool results that are no longer sent are added as files. With "all" the model may also remove
    and re-prioritise the manifest's files for its session, except vital and pinned files and instructions.
    """

    durability: Literal["os", "turn", "always"] = "os"
    """What a power failure can lose: `os` the last seconds, `turn` the reply in flight, `always` nothing.

    A crash of the process loses nothing. `turn` waits for the disk when a turn begins and ends, `always` after every
    write.
    """

    derive: Literal["behind", "inline"] = "behind"
    """When derived files, such as those in `context/`, are written.

    `inline` writes them in every turn. `behind` writes them in the background, once for many turns; at the latest when
    the client is closed, the process ends or `ctxwrap.flush()` is called.
    """

    on_busy: Literal["wait", "reject", "interleave"] = "wait"
    """What a call does while its session has another turn: wait, raise SessionBusy, or run at the same time."""

    busy_timeout: float = 30.0
    """Seconds that a call waits for its session before it raises SessionBusy."""

    summariser: SummaryWriter | None = None
    """A `Summariser(...)` that writes a summary of the conversation every few messages, in the background."""

    context_document: bool = True
    """Write a context document by rules, every six messages and at the end of the session."""

    prompts_dir: str | None = None
    """A directory of prompts for agents that override the package's own; None uses CTXWRAP_PROMPTS."""

    visibility: VisibilityRules = field(default_factory=dict)
    """Who may see what, besides the model or instead of it: targets, by the kind or the source of a pack item."""

    evidence: Literal["project", "log"] | bool = "project"
    """Where the events of a call's stages are: derived from its records on request ("project"), or also in the log.

    They say in numbers what was chosen, spent, sent and changed. True means "log", False "project".
    """

    quotas: Quotas | None = None
    """`Quotas(...)`: the most sessions of a tenant, and the most content of a session; None means no limit.

    A call beyond a quota raises QuotaExceeded before anything is written or sent.
    """

    redaction: Redaction | None = None
    """A `Redaction(...)`: what is replaced in all texts before they are used or sent; None means nothing."""

    clock: Callable[[], datetime] | datetime | None = None
    """The time of calls, for recorded tests: a datetime with a time zone, or a function that returns one.

    Times and ids of turns then come from it, so that two runs of the same calls send the same requests. None means the
    system's clock.
    """

    def __post_init__(self) -> None:
        for name in _CHOICES:
            _check_choice(name, getattr(self, name), get_args(_HINTS[name]))
        object.__setattr__(self, "evidence", _evidence_place(self.evidence))
        for name in (
            "record",
            "strict",
            "foreign_core",
            "retrieval",
            "embeddings",
            "cache_marks",
            "context_document",
            "team_writes",
        ):
            _check_flag(name, getattr(self, name))
        _check_flag("working_set_updates", self.working_set_updates, "all")
        _check_flag("cache_key", self.cache_key, None)
        if self.embeddings and find_spec("wordllama") is None:
            raise SettingsError("embeddings need an extra: pip install 'ctxwrap[embeddings]'")
        if self.working_set and not hasattr(os, "O_NOFOLLOW"):
            raise SettingsError("working_set needs Linux or macOS: this platform cannot refuse to follow links")
        _check_embedder(self.embedder)
        for name in ("budget", "budget_messages", "history_tokens", "snapshot_reserve", "max_reasks"):
            _check_count(name, getattr(self, name))
        _check_number("busy_timeout", self.busy_timeout)
        if self.busy_timeout < 0:
            raise SettingsError(f"busy_timeout must be from 0 up, not {self.busy_timeout!r}")
        if not isinstance(self.shares, Shares):
            raise SettingsError(f"shares must be Shares(...), not {self.shares!r}")
        if not isinstance(self.windows, Mapping):
            raise SettingsError(f"windows must be a mapping from model names to tokens, not {self.windows!r}")
        for model, tokens in self.windows.items():
            _check_count(f"windows[{model!r}]", tokens)
        _check_path("working_set", self.working_set, "a working-set.yml")
        _check_path("prompts_dir", self.prompts_dir, "a directory")
        if not isinstance(self.memory, MemoryRules):
            raise SettingsError(f"memory must be MemoryRules(...), not {self.memory!r}")
        check_rules(self.visibility)
        _check_quotas(self.quotas)
        _check_clock(self.clock)
        if self.redaction is not None and not isinstance(self.redaction, Redaction):
            raise SettingsError(f"redaction must be Redaction(...), not {self.redaction!r}")
        if self.summariser is not None and not isinstance(self.summariser, SummaryWriter):
            raise SettingsError(f"summariser must be Summariser(client, model=...), not {self.summariser!r}")


def _check_embedder(embedder: Any) -> None:
    is_pair = isinstance(embedder, tuple) and len(embedder) == 2 and isinstance(embedder[1], str)
    if embedder is not None and not callable(embedder) and not (is_pair and hasattr(embedder[0], "embeddings")):
        raise SettingsError(f"embedder must be a function or (client, model), not {embedder!r}")


class SettingsDict(TypedDict, total=False):
    """The settings as keywords, for `wrap(client, **settings)`; their meaning is in `Settings`."""

    context_mode: Mode
    contextMode: Mode  # another spelling of context_mode
    record: bool
    strict: bool
    history: Literal["log", "caller"]
    budget: int
    shares: Shares
    windows: Mapping[str, int]
    budget_messages: int
    history_tokens: int
    retrieval: bool
    embeddings: bool
    embedder: Any
    search: Literal["session", "user"]
    team_writes: bool
    cache_marks: bool
    cache_key: bool | None
    snapshot_reserve: int
    snapshot: Literal["delta", "full"]
    foreign_core: bool
    max_reasks: int
    on_missing: Literal["rules", "keep", "reask"]
    evolution: Literal["decay", "off"]
    memory: MemoryRules
    working_set: str | None
    working_set_updates: bool | Literal["all"]
    durability: Literal["os", "turn", "always"]
    derive: Literal["behind", "inline"]
    on_busy: Literal["wait", "reject", "interleave"]
    busy_timeout: float
    summariser: SummaryWriter | None
    context_document: bool
    prompts_dir: str | None
    visibility: VisibilityRules
    evidence: Literal["project", "log"] | bool
    quotas: Quotas | None
    redaction: Redaction | None
    clock: Callable[[], datetime] | datetime | None


_CHOICES = (
    "context_mode",
    "history",
    "search",
    "on_missing",
    "evolution",
    "snapshot",
    "durability",
    "derive",
    "on_busy",
)

_HINTS: dict[str, Any] = {field.name: field.type for field in fields(Settings)}


def check_mode(value: object) -> Mode:
    """`value` as a mode; an error that lists the modes if it is none."""
    if isinstance(value, str) and value in MODES:
        return value  # type: ignore[return-value]  # narrowed by the line above
    raise unknown_name("context_mode", value, MODES)


def check_purpose(value: object) -> Purpose:
    """`value` as the purpose of a call; an error that lists the purposes if it is none."""
    if isinstance(value, str) and value in PURPOSES:
        return value  # type: ignore[return-value]  # narrowed by the line above
    raise unknown_name("purpose", value, PURPOSES)


def _mode_of_the_process() -> Mode:
    try:
        return check_mode(os.environ.get("CTXWRAP_MODE", "enabled"))
    except SettingsError as error:
        raise SettingsError(f"{error} (the environment variable CTXWRAP_MODE)") from None


def settings_from(base: Settings | None = None, /, **overrides: Any) -> Settings:
    """`base`, or the process's defaults, with `overrides`; `contextMode` is another spelling of `context_mode`."""
    if "contextMode" in overrides:
        overrides["context_mode"] = overrides.pop("contextMode")
    for name in overrides:
        if name not in _HINTS:
            raise unknown_name("setting", name, _HINTS)
    if base is None:
        base = Settings(context_mode=_mode_of_the_process())
    elif not isinstance(base, Settings):
        raise SettingsError(f"settings must be Settings(...), not {base!r}: single settings are keywords")
    return replace(base, **overrides) if overrides else base
