"""Checks a live model: holds a short conversation, inspects its memory and recommends settings."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any, Literal, NamedTuple

from ctxwrap.clients.litellm import load_litellm
from ctxwrap.clients.sdk_call import turn_of
from ctxwrap.clients.wrap import wrap
from ctxwrap.inspect import Cost, cost_of, memory_of
from ctxwrap.protocol.instructions import DELTA_TEXT, SEPARATOR
from ctxwrap.stores import open_store
from ctxwrap.tokens import counter_for
from ctxwrap.tokens.models import price_of
from ctxwrap.types import SessionKey, TurnRecord

SYSTEM = "Answer in one short sentence."

SCRIPT = (
    "Hello! My name is Ada.",
    "I am allergic to peanuts.",
    "I live in Bergen.",
    "I am on the train right now.",
    "What is the capital of Portugal?",
    "I need to book a ferry by Friday.",
    "How long does an egg have to boil?",
    "My favourite colour is green.",
    "Name one river in Africa.",
    "I have moved to Trondheim.",
    "Which month has the fewest days?",
    "I work as a nurse.",
    "Write one line of a rhyme about rain.",
    "What must I not eat?",
    "How many legs does a spider have?",
    "Where do I live?",
    "I have finished booking the ferry.",
    "What is seven times eight?",
    "What is my name?",
    "Thank you very much.",
)
"""Lasting facts, a fact that changes, a task that is finished, a temporary remark, and unrelated questions."""

_FACTS = {"the name": "ada", "the allergy": "peanut", "the colour": "green", "the work": "nurse"}
_NEW_HOME, _OLD_HOME, _PASSING = "trondheim", "bergen", "train"


class ModelFinding(NamedTuple):
    """An expectation about the final memory, and whether it holds."""

    what: str
    holds: bool


def findings(memory: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[ModelFinding]:
    """Check the facts of the script against a memory by tiers."""
    contents = [str(item["content"]).casefold() for items in memory.values() for item in items]
    for name, word in _FACTS.items():
        yield ModelFinding(f"{name} is remembered", any(word in content for content in contents))
    yield ModelFinding("the new home is remembered", any(_NEW_HOME in content for content in contents))
    stale = [content for content in contents if _OLD_HOME in content and _NEW_HOME not in content]
    yield ModelFinding("the old home is not", not stale)
    core = [str(item["content"]).casefold() for item in memory.get("core", ())]
    yield ModelFinding("what was so for the moment is not core", not any(_PASSING in content for content in core))


SnapshotForm = Literal["delta", "full"]

ENOUGH, HARDLY = 0.8, 0.2
"""Shares of replies with a usable snapshot: memory works from the first on, and does not below the second."""

_USABLE = ("clean", "repaired", "partial")
_DETAIL = re.compile(r"'[^']*'|\d+")
_LONGEST_FORM = 100


class CheckedTurn(NamedTuple):
    """One turn as the caller received it."""

    turn: TurnRecord
    text: str
    seconds: float
    snapshot_seconds: float | None = None
    """Seconds from the last visible text of a stream to its end."""


class Advice(NamedTuple):
    """Recommended settings for the model, and the reason."""

    settings: dict[str, str]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    model: str
    snapshot: SnapshotForm
    """The requested form of the snapshot."""
    turns: int
    clean: int
    """Replies with a valid snapshot."""
    repaired: int
    """Replies with a snapshot that was repaired or used in part."""
    unusable: int
    """Replies with a snapshot that could not be used at first."""
    missing: int
    """Replies without a snapshot."""
    asked_again: int
    """Further requests for an unusable snapshot."""
    rescued: int
    """Replies with a usable snapshot after a further request."""
    forms: dict[str, int]
    """Repairs and violations, and the number of replies with each."""
    leaks: int
    """Answers with a visible separator."""
    blank: int
    """Empty answers."""
    findings: tuple[ModelFinding, ...]
    tokens_in: int
    cached: int | None
    """Input tokens read from the provider's cache; None if it reports no usage."""
    tokens_out: int
    snapshot_tokens: int
    """Output tokens of the snapshots."""
    dollars: float | None
    seconds: float
    snapshot_seconds: float | None
    """Average seconds of a streamed reply after its visible text."""

    @property
    def usable(self) -> float:
        """Share of replies with a usable snapshot in the end."""
        return (self.clean + self.repaired + self.rescued) / self.turns

    @property
    def is_remembered(self) -> bool:
        return all(finding.holds for finding in self.findings)

    @property
    def works(self) -> bool:
        return self.usable >= ENOUGH and self.is_remembered and not self.leaks and not self.blank

    @property
    def advice(self) -> Advice:
        other: SnapshotForm = "full" if self.snapshot == "delta" else "delta"
        kept = {"snapshot": self.snapshot, "on_missing": "rules"}
        if self.usable < HARDLY:
            return Advice({"context_mode": "readonly"}, "it rarely writes a usable snapshot")
        if self.usable < ENOUGH and self.missing >= self.unusable - self.rescued:
            return Advice(kept | {"on_missing": "reask"}, "it often writes no snapshot, and may when asked again")
        if self.usable < ENOUGH:
            return Advice(
                kept | {"snapshot": other}, "many of its snapshots are unusable; the other form may be easier"
            )
        if not self.is_remembered:
            return Advice(kept | {"snapshot": other}, "its snapshots omit what matters; the other form may help")
        return Advice(kept, "it writes usable snapshots")

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self) | {"findings": {finding.what: finding.holds for finding in self.findings}}
        return fields | {"usable": self.usable, "works": self.works, "advice": self.advice._asdict()}


def summarise_turns(
    model: str, snapshot: SnapshotForm, checked: list[CheckedTurn], found: Iterable[ModelFinding], cost: Cost
) -> Checkup:
    turns = [each.turn for each in checked]
    at_once = Counter(turn.report.reading for turn in turns if not turn.report.reasks)
    again = [turn for turn in turns if turn.report.reasks]
    snapshot_seconds = [each.snapshot_seconds for each in checked if each.snapshot_seconds is not None]
    spent = cost.sent.total
    return Checkup(
        model=model,
        snapshot=snapshot,
        turns=len(turns),
        clean=at_once["clean"],
        repaired=at_once["repaired"] + at_once["partial"],
        unusable=at_once["rejected"] + at_once["ambiguous"] + len(again),
        missing=at_once["missing"],
        asked_again=sum(turn.report.reasks for turn in turns),
        rescued=sum(turn.report.reading in _USABLE for turn in again),
        forms=dict(Counter(form for turn in turns for form in _forms(turn)).most_common()),
        leaks=sum(SEPARATOR in each.text for each in checked),
        blank=sum(not each.text.strip() for each in checked),
        findings=tuple(found),
        tokens_in=spent.tokens_in,
        cached=spent.cached if cost.reported else None,
        tokens_out=spent.tokens_out,
        snapshot_tokens=cost.snapshot,
        dollars=spent.money,
        seconds=sum(each.seconds for each in checked),
        snapshot_seconds=sum(snapshot_seconds) / len(snapshot_seconds) if snapshot_seconds else None,
    )


def _forms(turn: TurnRecord) -> Iterator[str]:
    """Yield the repairs and violations of a reply, each once and without details."""
    forms = (*turn.repairs, *turn.violations)
    yield from dict.fromkeys(_DETAIL.sub("…", form)[:_LONGEST_FORM] for form in forms)


TIMEOUT = 120.0
"""Timeout of a request, in seconds."""

_KEY = SessionKey("default", "default", "checkup")
_ANSWER, _SNAPSHOT, _STATE = 40, 200, 250
"""Assumed tokens of an answer, of its snapshot, and of the state in a request."""

Progress = Callable[[int, int], None]


class Estimate(NamedTuple):
    """The estimated cost of a check; reasoning models take more."""

    turns: int
    tokens_in: int
    tokens_out: int
    dollars: float | None
    """None if the model's price is unknown."""


def estimate(model: str) -> Estimate:
    counter, price = counter_for(model), price_of(model)
    sizes = [counter.count(text) for text in SCRIPT]
    each = counter.count(DELTA_TEXT) + counter.count(SYSTEM) + _STATE
    earlier = sum((len(sizes) - at - 1) * (tokens + _ANSWER) for at, tokens in enumerate(sizes))
    tokens_in, tokens_out = len(sizes) * each + sum(sizes) + earlier, len(sizes) * (_ANSWER + _SNAPSHOT)
    dollars = None if price is None else tokens_in * price.input + tokens_out * price.output
    return Estimate(len(sizes), tokens_in, tokens_out, dollars)


def check_model(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    snapshot: SnapshotForm = "delta",
    progress: Progress = lambda done, total: None,
    clock: Callable[[], float] = monotonic,
) -> Checkup:
    """Hold a conversation with a litellm model and check what it remembers. Errors of the provider propagate.

    With a `base_url` and no `api_key` a placeholder is sent, so that no key of another provider leaks to it.
    """
    litellm = load_litellm()
    store = open_store("memory:")
    place: dict[str, Any] = {"base_url": base_url, "api_key": api_key or "none"} if base_url else {"api_key": api_key}
    options = place | {"model": _routed(litellm, model) if base_url else model, "timeout": TIMEOUT}
    completion = wrap(litellm, store=store, session=_KEY.session, snapshot=snapshot, strict=True).completion
    checked = []
    for at, text in enumerate(SCRIPT):
        progress(at, len(SCRIPT))
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
        hear = _streamed if at % 2 else _whole
        checked.append(hear(completion, options | {"messages": messages}, clock))
    progress(len(SCRIPT), len(SCRIPT))
    found = findings(memory_of(store, _KEY)["memory"])
    return summarise_turns(model, snapshot, checked, found, cost_of(store, _KEY))


def _routed(litellm: Any, model: str) -> str:
    """Return the model's name with a provider that litellm knows; most self-hosted servers speak OpenAI's API."""
    try:
        litellm.get_llm_provider(model=model)
    except Exception:  # litellm raises for unknown models
        return f"openai/{model}"
    return model


def _whole(completion: Callable[..., Any], asked: dict[str, Any], clock: Callable[[], float]) -> CheckedTurn:
    begun = clock()
    reply = completion(**asked)
    return _checked_turn(reply, reply.choices[0].message.content or "", clock() - begun)


def _streamed(completion: Callable[..., Any], asked: dict[str, Any], clock: Callable[[], float]) -> CheckedTurn:
    begun = visible = clock()
    stream = completion(**asked, stream=True, stream_options={"include_usage": True})
    text = ""
    for chunk in stream:
        piece = (chunk.choices[0].delta.content or "") if chunk.choices else ""
        text, visible = text + piece, clock() if piece else visible
    ended = clock()
    return _checked_turn(stream, text, ended - begun, ended - visible)


def _checked_turn(result: Any, text: str, seconds: float, snapshot_seconds: float | None = None) -> CheckedTurn:
    turn = turn_of(result)
    if turn is None:
        raise RuntimeError("litellm was called without ctxwrap")
    return CheckedTurn(turn, text, seconds, snapshot_seconds)
