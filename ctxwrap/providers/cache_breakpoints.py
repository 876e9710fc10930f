"""Breakpoints of Anthropic's prompt cache: where ours help most, beside the caller's own."""

from collections.abc import Iterator
from typing import Any

from ctxwrap.providers.messages import Matches, blocks_of, last_index, set_path
from ctxwrap.types import Body

_MAX_BREAKPOINTS = 4
"""The API rejects a request with more cache breakpoints."""

_LOOK_BACK = 20
"""How many blocks before a breakpoint the provider searches for the end of an earlier cache entry."""

_MARKABLE = frozenset({"image", "document", "search_result", "tool_use", "server_tool_use", "mcp_tool_use"})

_TOOLS, _SYSTEM, _MESSAGES, _WHOLE = range(4)

BlockPlace = tuple[int, ...]
"""A block's position in the provider's order: part of the request, message, block, inner block."""


def with_breakpoints(body: Body, is_spoken: Matches) -> Body:
    """`body` with cache breakpoints where they help most; the block that changes with every call is not in it yet.

    The caller's breakpoints stay. Ours last five minutes, and the API allows no longer-lived one after them.
    """
    existing = list(_callers_breakpoints(body))
    last_long = max((place for place, ttl in existing if ttl == "1h"), default=())
    marked = {place for place, _ in existing}
    places = [place for place in _useful_places(body, is_spoken) if place > last_long and place not in marked]
    for place in places[: max(0, _MAX_BREAKPOINTS - len(existing))]:
        body = _with_breakpoint(body, place)
    return body


def _callers_breakpoints(body: Body) -> Iterator[tuple[BlockPlace, Any]]:
    """The caller's breakpoints and how long they last; one for the whole request comes after all others."""
    yield from _breakpoints_in(body.get("tools"), (_TOOLS,))
    yield from _breakpoints_in(body.get("system"), (_SYSTEM,))
    for at, message in enumerate(body["messages"]):
        if not isinstance(content := message.get("content"), str):  # as most are
            yield from _breakpoints_in(content, (_MESSAGES, at))
    yield from _breakpoints_in([{"cache_control": body.get("cache_control")}], (_WHOLE,))


def _breakpoints_in(blocks: Any, place: BlockPlace) -> Iterator[tuple[BlockPlace, Any]]:
    """The breakpoints of blocks and of blocks inside them, such as tool results."""
    for at, block in enumerate(blocks if isinstance(blocks, (list, tuple)) else ()):
        if not isinstance(block, dict):
            continue
        mark, source = block.get("cache_control"), block.get("source")
        if mark:
            yield (*place, at), mark.get("ttl") if isinstance(mark, dict) else None
        yield from _breakpoints_in(block.get("content"), (*place, at))
        yield from _breakpoints_in(source.get("content") if isinstance(source, dict) else None, (*place, at))


def _useful_places(body: Body, is_spoken: Matches) -> list[BlockPlace]:
    """Positions for breakpoints, the most useful first: system prompt, earlier messages, the newest message's text."""
    messages: list[Body] = body["messages"]
    newest = last_index(messages, is_spoken)
    system = _last_markable(blocks_of(body.get("system")), (_SYSTEM,))
    if newest < 0:
        return system
    earlier, own = _end_before(messages, newest), _end_of(messages, newest)
    return [*system, *earlier, *own, *_unreachable_end(messages, newest, is_spoken)]


def _end_before(messages: list[Body], end: int) -> list[BlockPlace]:
    ends = (_end_of(messages, at) for at in range(end - 1, -1, -1))
    return next(filter(None, ends), [])


def _unreachable_end(messages: list[Body], newest: int, is_spoken: Matches) -> list[BlockPlace]:
    """The end of the last call's cache entry, if it is too many blocks ago for the provider to find."""
    before = last_index(messages[:newest], is_spoken)
    since = sum(len(_content(message)) for message in messages[before + 1 : newest])
    return _end_of(messages, before) if before >= 0 and since >= _LOOK_BACK else []


def _end_of(messages: list[Body], at: int) -> list[BlockPlace]:
    return _last_markable(_content(messages[at]), (_MESSAGES, at))


def _last_markable(blocks: list[Body], place: BlockPlace) -> list[BlockPlace]:
    """The position of the last of `blocks` that can have a breakpoint, if any."""
    return [(*place, at) for at, block in enumerate(blocks) if _is_markable(block)][-1:]


def _is_markable(block: Body) -> bool:
    """Thinking, empty texts and unknown types of blocks cannot have a breakpoint."""
    kind = str(block.get("type"))
    if kind == "text":
        return bool(str(block.get("text") or "").strip())
    return kind in _MARKABLE or kind.endswith("tool_result")


def _content(message: Body) -> list[Body]:
    return blocks_of(message.get("content"))


def _with_breakpoint(body: Body, place: BlockPlace) -> Body:
    part, *inner, at = place
    path: tuple[str | int, ...] = ("system",) if part == _SYSTEM else ("messages", inner[0], "content")
    holder: Any = body
    for step in path:
        holder = holder[step]
    blocks = blocks_of(holder)
    blocks[at] = {**blocks[at], "cache_control": {"type": "ephemeral"}}
    return set_path(body, path, blocks)
