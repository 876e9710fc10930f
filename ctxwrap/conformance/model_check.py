"""A check of a live model: a short conversation, what became of its memory, and recommended settings."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any, Literal, NamedTuple

from ctxwrap.clients.litellm import load_litellm
from ctxwrap.clients.results import turn_of
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
"""Facts for good, one that changes, a task that is done, a remark about the moment, and talk about other things."""

_TOLD = {"the name": "ada", "the allergy": "peanut", "the colour": "green", "the work": "nurse"}
_NEW_HOME, _OLD_HOME, _PASSING = "trondheim", "bergen", "train"


class ModelFinding(NamedTuple):
    """Something that has to be so at the end, and whether it is."""

    what: str
    holds: bool


def findings(memory: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[ModelFinding]:
    """What has become of what was told, in a memory by tiers."""
    contents = [str(item["content"]).casefold() for items in memory.values() for item in items]
    for name, word in _TOLD.items():
        yield ModelFinding(f"{name} is remembered", any(word in content for content in contents))
    yield ModelFinding("the new home is remembered", any(_NEW_HOME in content for content in contents))
    stale = [content for content in contents if _OLD_HOME in content and _NEW_HOME not in content]
    yield ModelFinding("the old home is not", not stale)
    core = [str(item["content"]).casefold() for item in memory.get("core", ())]
    yield ModelFinding("what was so for the moment is not core", not any(_PASSING in content for content in core))


SnapshotForm = Literal["delta", "full"]

ENOUGH, HARDLY = 0.8, 0.2
"""The shares of replies with a state that can be used: from the first on memory works, below the second it does not."""

_USABLE = ("clean", "repaired", "partial")
_DETAIL = re.compile(r"'[^']*'|\d+")
_LONGEST_FORM = 100


class Heard(NamedTuple):
    """One turn as the caller had it."""

    turn: TurnRecord
    text: str
    seconds: float
    behind: float | None = None
    """The seconds from the last visible text of a stream to its end."""


class Advice(NamedTuple):
    """What to set for this model, and why."""

    settings: dict[str, str]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    model: str
    snapshot: SnapshotForm
    """What the model was asked for."""
    turns: int
    clean: int
    """Replies whose state was as it should be,"""
    repaired: int
    """was mended or taken in part,"""
    unusable: int
    """could not be read at first,"""
    missing: int
    """or was not there."""
    asked_again: int
    """Questions for a state that could not be used."""
    rescued: int
    """Replies that could be used after that."""
    forms: dict[str, int]
    """What was mended or broken, and in how many replies."""
    leaks: int
    """Answers in which the user could see a separator,"""
    blank: int
    """and answers that were empty."""
    findings: tuple[ModelFinding, ...]
    tokens_in: int
    cached: int | None
    """Of these, what the provider says its cache gave; None if it tells no usage."""
    tokens_out: int
    snapshot_tokens: int
    """Of the tokens out, those of the states."""
    dollars: float | None
    seconds: float
    snapshot_seconds: float | None
    """What a streamed reply took on average after its visible text."""

    @property
    def usable(self) -> float:
        """The share of replies with a state that could be used, at last."""
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
            return Advice({"context_mode": "readonly"}, "it hardly writes a state that can be used")
        if self.usable < ENOUGH and self.missing >= self.unusable - self.rescued:
            return Advice(kept | {"on_missing": "reask"}, "it often writes no state, and may when asked again")
        if self.usable < ENOUGH:
            return Advice(kept | {"snapshot": other}, "many of its states cannot be used; the other form may be easier")
        if not self.is_remembered:
            return Advice(kept | {"snapshot": other}, "its states do not say what matters; the other form may help")
        return Advice(kept, "it writes states that can be used")

    def as_json(self) -> dict[str, Any]:
        told = asdict(self) | {"findings": {finding.what: finding.holds for finding in self.findings}}
        return told | {"usable": self.usable, "works": self.works, "advice": self.advice._asdict()}


def summed_up(
    model: str, snapshot: SnapshotForm, heard: list[Heard], found: Iterable[ModelFinding], cost: Cost
) -> Checkup:
    turns = [each.turn for each in heard]
    at_once = Counter(turn.report.reading for turn in turns if not turn.report.reasks)
    again = [turn for turn in turns if turn.report.reasks]
    behind = [each.behind for each in heard if each.behind is not None]
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
        leaks=sum(SEPARATOR in each.text for each in heard),
        blank=sum(not each.text.strip() for each in heard),
        findings=tuple(found),
        tokens_in=spent.tokens_in,
        cached=spent.cached if cost.reported else None,
        tokens_out=spent.tokens_out,
        snapshot_tokens=cost.snapshot,
        dollars=spent.money,
        seconds=sum(each.seconds for each in heard),
        snapshot_seconds=sum(behind) / len(behind) if behind else None,
    )


def _forms(turn: TurnRecord) -> Iterator[str]:
    """What was mended or broken in a reply, each once and without its details."""
    told = (*turn.repairs, *turn.violations)
    yield from dict.fromkeys(_DETAIL.sub("…", form)[:_LONGEST_FORM] for form in told)


PATIENCE = 120.0
"""Seconds after which a model that does not answer will not."""

_KEY = SessionKey("default", "default", "checkup")
_ANSWER, _SNAPSHOT, _STATE = 40, 200, 250
"""What an answer, the state behind it and the state in a request are taken to have, in tokens."""

Progress = Callable[[int, int], None]


class Estimate(NamedTuple):
    """What a checkup will take, more or less; models that think before they answer take more."""

    turns: int
    tokens_in: int
    tokens_out: int
    dollars: float | None
    """None if the price of the model is not known."""


def estimate(model: str) -> Estimate:
    counter, price = counter_for(model), price_of(model)
    said = [counter.count(text) for text in SCRIPT]
    each = counter.count(DELTA_TEXT) + counter.count(SYSTEM) + _STATE
    earlier = sum((len(said) - at - 1) * (tokens + _ANSWER) for at, tokens in enumerate(said))
    tokens_in, tokens_out = len(said) * each + sum(said) + earlier, len(said) * (_ANSWER + _SNAPSHOT)
    dollars = None if price is None else tokens_in * price.input + tokens_out * price.output
    return Estimate(len(said), tokens_in, tokens_out, dollars)


def check_model(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    snapshot: SnapshotForm = "delta",
    progress: Progress = lambda done, total: None,
    clock: Callable[[], float] = monotonic,
) -> Checkup:
    """Talk with a model of litellm's and see what it remembers. What the provider raises is raised.

    With a `base_url` and no `api_key` a placeholder is sent as the key: that of another place is not for this one.
    """
    litellm = load_litellm()
    store = open_store("memory:")
    place: dict[str, Any] = {"base_url": base_url, "api_key": api_key or "none"} if base_url else {"api_key": api_key}
    options = place | {"model": _routed(litellm, model) if base_url else model, "timeout": PATIENCE}
    completion = wrap(litellm, store=store, session=_KEY.session, snapshot=snapshot, strict=True).completion
    heard = []
    for at, text in enumerate(SCRIPT):
        progress(at, len(SCRIPT))
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
        hear = _streamed if at % 2 else _whole
        heard.append(hear(completion, options | {"messages": messages}, clock))
    progress(len(SCRIPT), len(SCRIPT))
    found = findings(memory_of(store, _KEY)["memory"])
    return summed_up(model, snapshot, heard, found, cost_of(store, _KEY))


def _routed(litellm: Any, model: str) -> str:
    """The model's name with a provider that litellm knows; most servers of one's own speak OpenAI's API."""
    try:
        litellm.get_llm_provider(model=model)
    except Exception:  # litellm's way to say that it does not know
        return f"openai/{model}"
    return model


def _whole(completion: Callable[..., Any], asked: dict[str, Any], clock: Callable[[], float]) -> Heard:
    begun = clock()
    reply = completion(**asked)
    return _heard(reply, reply.choices[0].message.content or "", clock() - begun)


def _streamed(completion: Callable[..., Any], asked: dict[str, Any], clock: Callable[[], float]) -> Heard:
    begun = shown = clock()
    stream = completion(**asked, stream=True, stream_options={"include_usage": True})
    text = ""
    for chunk in stream:
        piece = (chunk.choices[0].delta.content or "") if chunk.choices else ""
        text, shown = text + piece, clock() if piece else shown
    ended = clock()
    return _heard(stream, text, ended - begun, ended - shown)


def _heard(result: Any, text: str, seconds: float, behind: float | None = None) -> Heard:
    turn = turn_of(result)
    if turn is None:
        raise RuntimeError("litellm was called and ctxwrap did not see it")
    return Heard(turn, text, seconds, behind)
