"""Every knob of ctxwrap, once, with its default and what it is for."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.util import find_spec
from math import inf, isnan
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from ctxwrap.errors import QuotaExceeded, SettingsError, unknown_name
from ctxwrap.kinds import check_rules, default_share
from ctxwrap.redaction import Redaction
from ctxwrap.redaction.visibility import VisibilityRules

Mode = Literal["enabled", "disabled", "readonly", "shadow"]
MODES: tuple[str, ...] = get_args(Mode)


class Quotas(NamedTuple):
    """The limits of memories and of wrapped chats, where a memory is a session and an entry is a message.

    0 is no limit. System messages are not counted.
    """

    memories: int = 10_000
    """Of a tenant, in all vaults: the sessions of all agents."""
    entries: int = 1_000_000
    """Of a memory."""
    characters: int = 1_000_000_000
    """Of all entries of a memory."""
    entry_characters: int = 200_000
    """Of one entry."""

    def check_memory(self, there: int) -> None:
        if self.memories and there >= self.memories:
            raise QuotaExceeded(
                f"there are {there} memories, and there may be {self.memories}: go on in one of them, or raise "
                "Quotas.memories"
            )

    def check_entries(self, entries: int, characters: int, lengths: Sequence[int]) -> None:
        """Whether entries of these lengths fit beside those that are there."""
        longest, added = max(lengths, default=0), sum(lengths)
        if self.entry_characters and longest > self.entry_characters:
            raise QuotaExceeded(
                f"an entry may have {self.entry_characters} characters, and this one has {longest}: shorten it, "
                "or raise Quotas.entry_characters"
            )
        if self.entries and entries + len(lengths) > self.entries:
            raise QuotaExceeded(
                f"there are {entries} entries, and there may be {self.entries}: {len(lengths)} more are too many. "
                "Begin another session or memory, or raise Quotas.entries"
            )
        if self.characters and characters + added > self.characters:
            raise QuotaExceeded(
                f"there are {characters} characters, and there may be {self.characters}: {added} more are too many. "
                "Begin another session or memory, or raise Quotas.characters"
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


def _evidence_in(value: object) -> object:
    """Where the events of stages are, by its name."""
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


def _check_number(name: str, value: object, *, endless: bool = False) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value)
    if not is_number or (value in (inf, -inf) and not endless):
        raise SettingsError(f"{name} must be a number, not {value!r}")


def _check_path(name: str, value: object, what: str) -> None:
    if value is not None and not (isinstance(value, str) and value):
        raise SettingsError(f"{name} must be the path of {what}, not {value!r}")


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
        _check_number(f"{name}.{tier}", number, endless=name in ("half_lives", "least_stay", "most_stay"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRules:
    """How memory ages; time is counted in rounds."""

    half_lives: PerTier = PerTier(core=inf, working=24, ephemeral=8)
    """After how many rounds without evidence of use an item matters half as much; in core, age changes nothing."""

    least_stay: PerTier = PerTier(core=inf, working=32, ephemeral=1)
    """How many rounds an item stays in its tier at least, whatever its decay; core is not left by age."""

    most_stay: PerTier = PerTier(core=inf, working=64, ephemeral=24)
    """How many rounds an item stays in its tier at most without evidence of use, whatever decay the model writes."""

    growth: float = 0.5
    """The power of its number of touches by which an item's half-life grows; 0 is no growth."""

    longest: float = 4096
    """The half-life beyond which none grows."""

    thresholds: PerTier = PerTier(core=0.5, working=0.75, ephemeral=0.9)
    """The decay at which an item falls from its tier to the next one, and from the last one to swap."""

    working_at: float = 3
    """The touches that lift an item to working."""

    core_at: float = 8
    """The touches that lift an item to core."""

    capacity: PerTier = PerTier(core=200, working=150, ephemeral=100)
    """How many items a tier holds; what matters least goes to swap."""

    restated: float = 1.0
    """How much of an item's decay goes when the user speaks of it, from above 0 to 1; it is a touch as well."""

    echoed: float = 0.5
    """How much of it goes when the answer uses the item or its content really changed, from above 0 to 1."""

    rehydrated: float = 0.5
    """The largest decay of an item that was just brought back from swap."""

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

    working_set: float = default_share("working_set")
    """The files of the working set, and offers."""

    retrieved: float = default_share("retrieved")
    """Passages of earlier messages that are relevant to the newest one."""

    children: float = default_share("children")
    """Results of child sessions."""

    recent: float = default_share("recent_messages")
    """Reserved for recent messages, which may also take all that the other kinds leave."""

    def __post_init__(self) -> None:
        for name, share in asdict(self).items():
            _check_number(name, share)
            if not 0 <= share <= 1:
                raise SettingsError(f"{name} must be from 0 to 1, not {share!r}")


@runtime_checkable
class SummaryWriter(Protocol):
    """Somebody who writes summaries, as a `Summariser` does."""

    model: str
    every: int
    max_tokens: int

    def ask(self, rules: str, texts: str) -> str:
        """What is answered to `rules` about `texts`, as it comes; any error is the answer that there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    context_mode: Mode = "enabled"
    """What a call does unless it says otherwise: enabled, disabled, readonly or shadow."""

    record: bool = True
    """Whether calls in `disabled` mode that name a session are still written to its log."""

    strict: bool = False
    """Raise when ctxwrap itself cannot do its work, before the provider is called; else the call goes on bare."""

    history: Literal["log", "caller"] = "log"
    """`log` puts the recent messages of the log before the caller's first one; `caller` adds none."""

    budget: int = 32_000
    """The most tokens that a request may take, if the model's window is not smaller; 0 is no other limit than that."""

    shares: Shares = Shares()
    """How these are shared between memory, files, history and what is found."""

    windows: Mapping[str, int] = field(default_factory=dict)
    """The windows of models, in tokens, by name: for those that no table knows, or to use less than there is."""

    budget_messages: int = 20
    """Recent messages, memory and what is found take no more tokens together than the conversation's last so many
    messages would, what tells the model about them included; 0 is no such limit."""

    history_tokens: int = 10_000
    """The most tokens that recent messages take, whether they are the caller's or come from the log."""

    retrieval: bool = True
    """Whether earlier messages that the newest one asks for are found and shown."""

    embeddings: bool = False
    """Whether earlier messages are also found by what they mean, with the extra `embeddings` installed."""

    cache_marks: bool = True
    """Whether requests say up to where they seldom change, for providers that cache only what is marked so."""

    cache_key: bool | None = None
    """Whether requests name a prompt cache of their session, for providers that take such a key and no marks.

    None is only where OpenAI itself is called. With True, any provider that is called through OpenAI's SDK or litellm
    must know `prompt_cache_key`.
    """

    snapshot_reserve: int = 1024
    """Tokens added to a small output limit of the caller's, so that the trailer does not eat the answer; 0 is off."""

    snapshot: Literal["delta", "full"] = "delta"
    """`delta` asks the model for what is new or changed in its memory; `full` has it repeat all of it in each reply."""

    foreign_core: bool = False
    """Whether a turn that was shown tool, file or retrieved text, or what was made of such, may write core memory."""

    max_reasks: int = 1
    """How often the model is asked again for a snapshot that could not be used, in calls of their own; 0 is never."""

    on_missing: Literal["rules", "keep", "reask"] = "rules"
    """What a reply without a snapshot does: `rules` take what the user plainly stated, `keep` leaves memory as it was,
    `reask` asks the model for one, in a call of its own."""

    evolution: Literal["decay", "off"] = "decay"
    """`decay` lets memory fade, move between tiers and be reinforced; `off` keeps exactly what the model wrote."""

    memory: MemoryRules = MemoryRules()
    """The numbers by which memory ages: half-lives, thresholds, capacities."""

    working_set: str | None = None
    """The path of a `working-set.yml`, whose files every call gets to see as far as its budget reaches."""

    working_set_updates: bool | Literal["all"] = True
    """Whether the working set follows the conversation; else it is what its manifest says.

    The model may ask for files below the manifest's directory that are not hidden, priorities move with use and hints,
    and large tool results that are no longer sent come back as files. With "all" the model may also remove and
    re-prioritise the manifest's files for its session, except vital and pinned ones and instructions.
    """

    durability: Literal["os", "turn", "always"] = "os"
    """What a power cut can cost: `os` the last seconds, `turn` what a reply in flight said, `always` nothing.

    No crash of the process costs anything. `turn` waits for the disk when a turn begins and when it ends, `always`
    after every write.
    """

    derive: Literal["behind", "inline"] = "behind"
    """When files that follow from the log are written, such as those in `context/`.

    `inline` is with every turn. `behind` is after the answers, once for many turns; at the latest when the client is
    closed, the process ends or `ctxwrap.flush()` is called.
    """

    on_busy: Literal["wait", "reject", "interleave"] = "wait"
    """What a call does while another one has its session: wait for it, raise SessionBusy, or go on beside it."""

    busy_timeout: float = 30.0
    """How many seconds a call waits for its session before it raises SessionBusy."""

    summariser: SummaryWriter | None = None
    """A `Summariser(...)` that is asked now and then, in the background, for a summary of the conversation so far."""

    context_document: bool = True
    """Whether a context document grows along with a session, every six messages and once at the end, by rules."""

    prompts_dir: str | None = None
    """A directory of prompts for agents that come before the package's own; None is what CTXWRAP_PROMPTS says."""

    visibility: VisibilityRules = field(default_factory=dict)
    """Who beside the model, or instead of it, may see what: targets, by the kind of an item or by its source."""

    evidence: Literal["project", "log"] | bool = "project"
    """Where the events of the stages of a call are: made of its records when somebody asks, or in the log as well.

    They tell by numbers what was chosen, spent, sent and changed. True is a spelling of "log", False of "project".
    """

    quotas: Quotas | None = None
    """`Quotas(...)`: how many sessions a tenant may have, and how much a session may hold; None is no limit.

    A call beyond them raises QuotaExceeded before anything is written or sent.
    """

    redaction: Redaction | None = None
    """A `Redaction(...)`: what is replaced in all texts before anything is made of them or sent; None is nothing."""

    def __post_init__(self) -> None:
        for name in _CHOICES:
            _check_choice(name, getattr(self, name), get_args(_HINTS[name]))
        object.__setattr__(self, "evidence", _evidence_in(self.evidence))
        for name in (
            "record",
            "strict",
            "foreign_core",
            "retrieval",
            "embeddings",
            "cache_marks",
            "context_document",
        ):
            _check_flag(name, getattr(self, name))
        _check_flag("working_set_updates", self.working_set_updates, "all")
        _check_flag("cache_key", self.cache_key, None)
        if self.embeddings and find_spec("wordllama") is None:
            raise SettingsError("embeddings need the extra: pip install 'ctxwrap[embeddings]'")
        for name in ("budget", "budget_messages", "history_tokens", "snapshot_reserve", "max_reasks"):
            _check_count(name, getattr(self, name))
        _check_number("busy_timeout", self.busy_timeout)
        if not isinstance(self.shares, Shares):
            raise SettingsError(f"shares must be Shares(...), not {self.shares!r}")
        if not isinstance(self.windows, Mapping):
            raise SettingsError(f"windows must be a mapping from models to numbers, not {self.windows!r}")
        for model, tokens in self.windows.items():
            _check_count(f"windows[{model!r}]", tokens)
        _check_path("working_set", self.working_set, "a working-set.yml")
        _check_path("prompts_dir", self.prompts_dir, "a directory")
        if not isinstance(self.memory, MemoryRules):
            raise SettingsError(f"memory must be MemoryRules(...), not {self.memory!r}")
        check_rules(self.visibility)
        _check_quotas(self.quotas)
        if self.redaction is not None and not isinstance(self.redaction, Redaction):
            raise SettingsError(f"redaction must be Redaction(...), not {self.redaction!r}")
        if self.summariser is not None and not isinstance(self.summariser, SummaryWriter):
            raise SettingsError(f"summariser must be Summariser(client, model=...), not {self.summariser!r}")


_CHOICES = ("context_mode", "history", "on_missing", "evolution", "snapshot", "durability", "derive", "on_busy")

_HINTS: dict[str, Any] = {field.name: field.type for field in fields(Settings)}


def check_mode(value: object) -> Mode:
    """`value` as a mode, or an error that names the modes there are."""
    if isinstance(value, str) and value in MODES:
        return value  # type: ignore[return-value]  # narrowed by the line above
    raise unknown_name("context_mode", value, MODES)


def settings_from(base: Settings | None = None, /, **overrides: Any) -> Settings:
    """`base`, else the process's defaults, with `overrides`; `contextMode` is a spelling of `context_mode`."""
    if "contextMode" in overrides:
        overrides["context_mode"] = overrides.pop("contextMode")
    for name in overrides:
        if name not in _HINTS:
            raise unknown_name("setting", name, _HINTS)
    if base is None:
        base = Settings(context_mode=check_mode(os.environ.get("CTXWRAP_MODE", "enabled")))
    return replace(base, **overrides) if overrides else base
