"""Copies: a large tool output that recent messages hold more than once is sent once, and referred to after that.

The first of the messages that are sent has the output, so that what was sent before stays as it was. The newest turn is
not touched: what the caller just sent is sent on as it is.
"""

from collections.abc import Sequence

from ctxwrap.tokens.measure import Measure
from ctxwrap.types import Kept, Message, Older

_LARGE = 1024
"""From so many characters on an output is worth a reference."""

_SLACK = 16
"""Tokens that one reference may have more than another."""


def reference_to(first: Message, number: int) -> str:
    """What stands for the output of message `first`, which has that number, when it is said again."""
    call = f"of tool call {first.tool_call_id[:64]} above" if first.tool_call_id else "of an earlier tool call above"
    return f"[The same output as that {call}: {len(first.text)} characters, in messages:{number}. It is not repeated.]"


def counted_once(older: Sequence[Older], measure: Measure) -> tuple[Older, ...]:
    """The messages with tokens that tell what any of them and all behind it take, when each output is sent once."""
    counted = list(older)
    for at in (at for *copies, _ in _places(older) for at in copies):
        counted[at] = older[at]._replace(tokens=_referring(older[at], older[at], measure).tokens + _SLACK)
    return tuple(counted)


def referred(sent: Sequence[Older], measure: Measure) -> tuple[tuple[Older, ...], dict[int, int]]:
    """The messages with references in the place of copies; and of which message each of these is one, by numbers."""
    shown, copies = list(sent), dict[int, int]()
    for first, *others in _places(sent):
        shown[first] = sent[first]._replace(tokens=sent[others[-1]].tokens)
        for at in others:
            shown[at] = _referring(sent[at], sent[first], measure)
            copies[sent[at].number] = sent[first].number
    return tuple(shown), copies


def _referring(copy: Older, first: Older, measure: Measure) -> Older:
    message = copy.message._replace(content=reference_to(first.message, first.number))
    return copy._replace(message=message, tokens=measure.message(Kept(copy.number, message)))


def _places(older: Sequence[Older]) -> list[list[int]]:
    """Where each large output stands that is there more than once."""
    found: dict[str, list[int]] = {}
    for at, each in enumerate(older):
        if each.message.role == "tool" and each.number and (text := _large_text(each.message)):
            found.setdefault(text, []).append(at)
    return [places for places in found.values() if len(places) > 1]


def _large_text(message: Message) -> str:
    content = message.content
    is_text = isinstance(content, str) or all(part.get("type") == "text" for part in content)
    text = message.text if is_text else ""
    return text if len(text) >= _LARGE else ""
