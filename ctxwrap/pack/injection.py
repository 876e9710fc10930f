"""The chosen items as the texts of a request, in an order that keeps prompt caches valid."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b, sha256
from types import MappingProxyType
from typing import Any, NamedTuple

from ctxwrap.encoding import encode_json
from ctxwrap.memory.epoch import Tiers, brief_item
from ctxwrap.memory.memory import memory_is_write_once
from ctxwrap.protocol.instructions import (
    DELTA_TEXT,
    PROTOCOL_TEXT,
    READING_TEXT,
    REMINDER,
    WRITE_ONCE_TEXT,
    encode_escaped,
    frame_block,
    frame_state,
)
from ctxwrap.protocol.snapshot import with_runtime
from ctxwrap.settings import Mode, Settings
from ctxwrap.stores.log_format import count_in, numbers_in, ranges
from ctxwrap.types import Body, Candidate, Injection, Message, Prefix, Record, Runtime


class Chosen:
    """What is sent in addition to the caller's request."""

    instructions = ""
    """Files with the role system or developer, below the boot header."""
    epoch: Tiers | None = None
    """The memory that stays the same during an epoch."""
    files = ""
    history: tuple[Message, ...] = ()
    left_out: frozenset[int] = frozenset()
    references: Mapping[int, Mapping[str, str]] = MappingProxyType({})
    found: Sequence[str] = ()
    """Retrieved passages, as lines."""
    offered = ""
    """Texts that the caller offers for this call."""
    state: dict[str, Any]
    """The memory, or what differs from the epoch."""

    def __init__(self) -> None:
        self.session_texts: dict[str, list[Candidate]] = {}
        """Texts of the session, by the block that holds them."""

    @property
    def texts(self) -> dict[str, str]:
        """The long texts that the log does not hold otherwise, by block; without empty ones."""
        own = {block: "".join([each.text for each in given]) for block, given in self.session_texts.items()}
        texts = {
            "boot": self.instructions,
            "pinned": own.get("pinned", ""),
            "background": joined(self.files.rstrip("\n"), own.get("background", "").rstrip("\n")),
            "offered": self.offered,
        }
        return {name: text for name, text in texts.items() if text}


class Instructions(NamedTuple):
    """The instructions about the memory: the beginning of the system prompt, and the end of the request."""

    protocol: str
    reminder: str = ""

    def as_text(self) -> str:
        return f"{self.protocol}\f{self.reminder}"

    @classmethod
    def from_text(cls, text: str) -> "Instructions":
        protocol, _, reminder = text.partition("\f")
        return cls(protocol, reminder)


INSTRUCTIONS = {
    "full": Instructions(PROTOCOL_TEXT, REMINDER),
    "delta": Instructions(DELTA_TEXT, REMINDER),
    "reading": Instructions(READING_TEXT),
}
"""By protocol: the model writes its whole memory, or what changed, or only reads it."""


def instructions_for(protocol: str, capabilities: Sequence[Any]) -> Instructions:
    words = INSTRUCTIONS[protocol]
    if not capabilities or protocol == "reading" or not memory_is_write_once(capabilities):
        return words
    return words._replace(protocol=joined(words.protocol, WRITE_ONCE_TEXT))


@lru_cache(maxsize=256)
def instructions_tokens(words: Instructions, count: Callable[[str], int]) -> tuple[int, int]:
    """The tokens of the protocol and of the reminder, which are the same in most calls."""
    return count(words.protocol), count(words.reminder)


def assemble(
    chosen: Chosen, texts: Mapping[str, str], words: Instructions, runtime: Runtime, mode: Mode, settings: Settings
) -> Injection:
    """What is added to a request; `texts` are those of `chosen`."""
    protocol, standing, background, state = words.protocol, memory_text(chosen.epoch), "", chosen.state
    block = joined(frame_state(with_runtime(state, runtime)), words.reminder)
    if texts:
        protocol = joined(protocol, frame_block("boot", texts.get("boot", "")))
        standing = joined(frame_block("pinned", texts.get("pinned", "")), standing)
        background = frame_block("background", texts.get("background", ""))
        block = joined(frame_block("background", chosen.offered), block)
    if chosen.found:
        block = joined(frame_block("found", "\n".join(chosen.found)), block)
    return Injection(
        protocol=protocol,
        standing=standing,
        background=background,
        history=chosen.history,
        block=block,
        reserve=settings.snapshot_reserve if mode != "readonly" else 0,
        left_out=chosen.left_out,
        references=chosen.references,
        breakpoints=settings.cache_marks,
    )


def protocol_for(mode: Mode, settings: Settings) -> str:
    """The key of a call in `WORDS`."""
    return "reading" if mode == "readonly" else settings.snapshot


def memory_text(epoch: Tiers | None) -> str:
    """The memory of an epoch, each item as its id, decay and content."""
    if not epoch:
        return ""
    known = _memory_texts.get(id(epoch))
    if known is None or known[0] is not epoch:
        shown = {tier: list(map(brief_item, items)) for tier, items in epoch.items() if items}
        known = epoch, frame_block("memory", encode_escaped(shown)) if shown else ""
        if len(_memory_texts) >= _MEMORY_TEXTS:
            _memory_texts.clear()
        _memory_texts[id(epoch)] = known
    return known[1]


_MEMORY_TEXTS = 64
_memory_texts: dict[int, tuple[Tiers, str]] = {}
"""The texts of epochs, by identity: an epoch never changes, and is sent in many turns."""


def joined(text: str, then: str) -> str:
    """Two texts with a blank line between them, or the one that is not empty."""
    return f"{text}\n\n{then}" if text and then else text or then


def measured_head(parts: tuple[str, ...], count: Callable[[str], int]) -> tuple[tuple[str, ...], list[int]]:
    """The digests and the tokens of the parts of a request before the conversation; an absent part has no digest."""
    is_short = sum(map(len, parts)) <= _LONGEST_KEPT
    return (_kept_head if is_short else _measured_head)(parts, count)


def _measured_head(parts: tuple[str, ...], count: Callable[[str], int]) -> tuple[tuple[str, ...], list[int]]:
    digests = tuple([_new_digest(part, _HEAD_DIGEST) if part else "" for part in parts])
    return digests, list(map(count, parts))


def stable_tokens(before: Prefix | None, now: Prefix, head: Sequence[int], tokens_before: Callable[[int], int]) -> int:
    """The length in tokens of the prefix that a request has in common with the previous one.

    `head` has the tokens of the parts before the messages, and `tokens_before` gives those of the first few messages.
    """
    if before is None:
        return 0
    tokens = same = 0
    if now.head == before.head:
        tokens = sum(head)
    else:
        for digest, known, size in zip(now.head, before.head, head, strict=False):
            if digest != known:
                return tokens
            tokens += size
    for number, known_number in zip(now.messages, before.messages, strict=False):
        if not number or number != known_number:
            break
        same += 1
    return tokens + tokens_before(same)


def tokens_taken(usage: Mapping[str, Any]) -> Record:
    """The input tokens that a provider reports, and how many of them it had cached."""
    taken = next((n for name in ("prompt_tokens", "input_tokens") if (n := count_in(usage, name)) is not None), None)
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = count_in(details, "cached_tokens")
    if cached is None:
        cached = count_in(usage, "cache_read_input_tokens")
    known = {"input_tokens": taken, "cached_input_tokens": cached}
    return {name: count for name, count in known.items() if count is not None}


def body_hash(body: Body) -> str:
    """SHA-256 of a request as JSON, before an SDK adds to it: with sorted keys, and with digests for long texts.

    Most of a request was sent before, so most of the digests are known.
    """
    return sha256(encode_json(_with_digests(body))).hexdigest()


_LONG = 64
"""Characters up to which a text stands in a hashed request itself."""


def _with_digests(value: Any) -> Any:
    if isinstance(value, dict):
        made = {}
        for name in sorted(value):
            each = value[name]
            if not isinstance(each, str):
                each = _with_digests(each)
            elif len(each) > _LONG:
                each = (_kept_digest if len(each) <= _LONGEST_KEPT else _new_digest)(each, _BODY_DIGEST)
            made[name] = each
        return made
    if isinstance(value, (list, tuple)):
        return list(map(_with_digests, value))
    if isinstance(value, str) and len(value) > _LONG:
        return (_kept_digest if len(value) <= _LONGEST_KEPT else _new_digest)(value, _BODY_DIGEST)
    return value


def as_json(prefix: Prefix) -> Record:
    return {"head": list(prefix.head), "messages": ranges(prefix.messages)}


def from_json(value: Record) -> Prefix:
    head = tuple(map(str, value["head"]))
    if _EMPTY in head:
        head = tuple("" if digest == _EMPTY else digest for digest in head)
    return Prefix(head, tuple(numbers_in(str(value["messages"]))))


_LONGEST_KEPT = 16_384
"""Characters up to which the digest of a text is kept: all texts together have at most four million."""


def _new_digest(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


_kept_digest = lru_cache(maxsize=256)(_new_digest)
_kept_head = lru_cache(maxsize=64)(_measured_head)
"""The beginning of most requests is that of the last one."""

_HEAD_DIGEST, _BODY_DIGEST = 6, 20
"""Bytes of digests."""

_EMPTY = _new_digest("", _HEAD_DIGEST)
"""The digest of an absent part, which older logs may have."""
