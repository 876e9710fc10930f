"""Assembly: the texts a turn adds to a request, and the record of what they are made of."""

from collections.abc import Sequence

from ctxwrap.protocol.snapshot import with_runtime
from ctxwrap.protocol.text import DELTA_TEXT, PROTOCOL_TEXT, READING_TEXT, frame
from ctxwrap.settings import Mode, Settings
from ctxwrap.stages.selection import select_history
from ctxwrap.stages.tokens import estimate, estimate_message
from ctxwrap.types import Injection, Message, Opening, PackItem, Request, Supplement


def assemble(
    request: Request, opening: Opening, mode: Mode, settings: Settings, supplement: Supplement
) -> tuple[Injection, tuple[PackItem, ...]]:
    """What to inject, and every candidate with the reason why it is in or out."""
    writes = mode != "readonly"
    asking = DELTA_TEXT if settings.snapshot == "delta" else PROTOCOL_TEXT
    protocol = asking if writes else READING_TEXT
    block = frame(with_runtime(opening.state, opening.runtime))
    adds = settings.history == "log" and not request.server_history
    history = select_history(opening.history, settings.history_tokens) if adds else ()
    pack = (
        PackItem("system", "protocol", estimate(protocol), True, "tells the model what the block is"),
        PackItem("memory", "context", estimate(block), True, "memory and runtime fields"),
        *supplement.items,
        *_history_items(opening.history, len(history), adds),
        PackItem("request", "caller", sum(map(estimate_message, request.messages)), True, "sent by the caller"),
    )
    system, data = _joined(protocol, supplement.instructions), _joined(supplement.context, block)
    return Injection(system, data, history, settings.snapshot_reserve if writes else 0), pack


def _joined(*texts: str) -> str:
    return "\n\n".join(text.rstrip("\n") for text in texts if text)


def _history_items(messages: Sequence[Message], kept: int, adds: bool) -> list[PackItem]:
    """The earlier messages as one or two items: what is sent of them, and what is not."""
    left_out, sent = messages[: len(messages) - kept], messages[len(messages) - kept :]
    why_not = "older than the history budget reaches" if adds else "the caller or the provider keeps the history"
    return [
        PackItem("recent_messages", "messages.jsonl", sum(map(estimate_message, part)), included, reason)
        for part, included, reason in ((sent, True, "recent history"), (left_out, False, why_not))
        if part
    ]
