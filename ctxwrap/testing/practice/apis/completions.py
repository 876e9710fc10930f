"""Replies in the format of OpenAI's legacy completions."""

from collections.abc import Iterator
from itertools import accumulate

from ctxwrap.testing.practice.answer import JSON, Answer
from ctxwrap.testing.practice.apis.chat import broken, usage, wants_usage
from ctxwrap.testing.practice.apis.parts import (
    DONE,
    Pace,
    PracticeTurn,
    StreamError,
    StreamEvent,
    interleave,
    logprob,
)

_FINISH = {"length": "length", "content_filter": "content_filter"}


def complete(turn: PracticeTurn) -> JSON:
    choices = [
        _choice(index, answer.text, _logprobs(turn, answer, answer.cut(), 0), _finish(answer))
        for index, answer in enumerate(turn.answer.choices(turn.ask.n))
    ]
    return _head(turn) | {"choices": choices, "usage": usage(turn)}


def events(turn: PracticeTurn) -> Iterator[StreamEvent]:
    answers = turn.answer.choices(turn.ask.n)
    blank_usage: JSON = {"usage": None} if wants_usage(turn) else {}
    try:
        for choice in interleave(*(_texts(turn, index, answer) for index, answer in enumerate(answers))):
            yield StreamEvent(_head(turn) | {"choices": [choice]} | blank_usage)
    except StreamError:
        yield broken()
        return
    if wants_usage(turn):
        yield StreamEvent(_head(turn) | {"choices": [], "usage": usage(turn)})
    yield DONE


def _head(turn: PracticeTurn) -> JSON:
    return {
        "id": turn.id("cmpl-"),
        "object": "text_completion",
        "created": turn.created,
        "model": turn.ask.model,
        "system_fingerprint": "fp_practice",
    }


def _texts(turn: PracticeTurn, index: int, answer: Answer) -> Iterator[JSON]:
    """Yield the chunks of one choice."""
    pace, offset = Pace(answer), 0
    for piece in pace.through(answer.cut()):
        yield _choice(index, piece, _logprobs(turn, answer, (piece,), offset))
        offset += len(piece)
    pace.check()
    yield _choice(index, "", None, _finish(answer))


def _choice(index: int, text: str, logprobs: JSON | None, finish: str | None = None) -> JSON:
    return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish}


def _finish(answer: Answer) -> str:
    return _FINISH.get(answer.finish, "stop")


def _logprobs(turn: PracticeTurn, answer: Answer, tokens: tuple[str, ...], offset: int) -> JSON | None:
    if not answer.logprobs and turn.ask.body.get("logprobs") is None:
        return None
    return {
        "tokens": list(tokens),
        "token_logprobs": [logprob(token) for token in tokens],
        "top_logprobs": [{token: logprob(token)} for token in tokens],
        "text_offset": list(accumulate((len(token) for token in tokens[:-1]), initial=offset)),
    }
