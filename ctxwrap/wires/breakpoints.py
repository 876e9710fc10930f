"""Marks up to which Anthropic may cache a request: ours, as far as the caller's leave room."""

from collections.abc import Iterator
from typing import Any

from ctxwrap.types import Body
from ctxwrap.wires.blocks import blocks_of, is_spoken
from ctxwrap.wires.edit import put
from ctxwrap.wires.placing import last_index

_MOST = 4
"""A request with more marks is refused."""

_LOOK_BACK = 20
"""How many blocks the provider goes back from a mark, to find what an earlier call had cached."""

_MARKABLE = frozenset({"image", "document", "search_result", "tool_use", "server_tool_use", "mcp_tool_use"})

_TOOLS, _SYSTEM, _MESSAGES, _WHOLE = range(4)

Place = tuple[int, ...]
"""Where a block stands in the order that the provider goes by: part of the request, message, block, inner block."""


def with_breakpoints(body: Body) -> Body:
    """`body`, in which nothing changes with every call yet, with marks at its places of most use.

    The caller's marks stay as they are. A mark of ours lasts five minutes, and none that lasts longer may follow it.
    """
    callers = list(_marks(body))
    lasting = max((place for place, ttl in callers if ttl == "1h"), default=())
    marked = {place for place, _ in callers}
    places = [place for place in _wanted(body) if place > lasting and place not in marked]
    for place in places[: max(0, _MOST - len(callers))]:
        body = _with_mark(body, place)
    return body


def _marks(body: Body) -> Iterator[tuple[Place, Any]]:
    """Where the caller's marks are and how long they last; one for the whole request is put behind all others."""
    yield from _marks_in(body.get("tools"), (_TOOLS,))
    yield from _marks_in(body.get("system"), (_SYSTEM,))
    for at, message in enumerate(body["messages"]):
        yield from _marks_in(message.get("content"), (_MESSAGES, at))
    yield from _marks_in([{"cache_control": body.get("cache_control")}], (_WHOLE,))


def _marks_in(blocks: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """The marks of blocks and of those inside of them, such as what a tool gave back."""
    for at, block in enumerate(blocks if isinstance(blocks, (list, tuple)) else ()):
        if not isinstance(block, dict):
            continue
        mark, source = block.get("cache_control"), block.get("source")
        if mark:
            yield (*place, at), mark.get("ttl") if isinstance(mark, dict) else None
        yield from _marks_in(block.get("content"), (*place, at))
        yield from _marks_in(source.get("content") if isinstance(source, dict) else None, (*place, at))


def _wanted(body: Body) -> list[Place]:
    """The places of most use first: the system prompt, what was said before, and the newest message's own text."""
    messages: list[Body] = body["messages"]
    newest = last_index(messages, is_spoken)
    system = _last_markable(blocks_of(body.get("system")), (_SYSTEM,))
    if newest < 0:
        return system
    return [*system, *_end_before(messages, newest), *_end_of(messages, newest), *_out_of_sight(messages, newest)]


def _end_before(messages: list[Body], end: int) -> list[Place]:
    ends = (_end_of(messages, at) for at in range(end - 1, -1, -1))
    return next(filter(None, ends), [])


def _out_of_sight(messages: list[Body], newest: int) -> list[Place]:
    """What the last call was cached up to, if so much happened since then that nobody would look for it there."""
    before = last_index(messages[:newest], is_spoken)
    since = sum(len(_content(message)) for message in messages[before + 1 : newest])
    return _end_of(messages, before) if before >= 0 and since >= _LOOK_BACK else []


def _end_of(messages: list[Body], at: int) -> list[Place]:
    return _last_markable(_content(messages[at]), (_MESSAGES, at))


def _last_markable(blocks: list[Body], place: Place) -> list[Place]:
    """The place of the last of `blocks` that may have a mark, if one may."""
    return [(*place, at) for at, block in enumerate(blocks) if _is_markable(block)][-1:]


def _is_markable(block: Body) -> bool:
    """Thoughts and empty texts may have no mark, and nor may what is yet to be invented."""
    kind = str(block.get("type"))
    if kind == "text":
        return bool(str(block.get("text") or "").strip())
    return kind in _MARKABLE or kind.endswith("tool_result")


def _content(message: Body) -> list[Body]:
    return blocks_of(message.get("content"))


def _with_mark(body: Body, place: Place) -> Body:
    part, *inner, at = place
    path: tuple[str | int, ...] = ("system",) if part == _SYSTEM else ("messages", inner[0], "content")
    holder: Any = body
    for step in path:
        holder = holder[step]
    blocks = blocks_of(holder)
    blocks[at] = {**blocks[at], "cache_control": {"type": "ephemeral"}}
    return put(body, path, blocks)
