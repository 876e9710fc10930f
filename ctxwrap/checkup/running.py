"""The conversation with the model, through litellm and in a store of its own, and what it will cost."""

from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

from ctxwrap.checkup.results import Checkup, Heard, Snapshot, summed_up
from ctxwrap.checkup.script import SCRIPT, SYSTEM, findings
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.clients.results import turn_of
from ctxwrap.inspection import cost_of, memory_of
from ctxwrap.protocol.text import DELTA_TEXT
from ctxwrap.stores import open_store
from ctxwrap.tokens import counter_for
from ctxwrap.tokens.prices import price_of
from ctxwrap.types import SessionKey
from ctxwrap.wrapping import wrap

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
    snapshot: Snapshot = "delta",
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
