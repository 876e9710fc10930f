"""Injection: what went where, how much of it begins like the last request, and the hash of what was sent."""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from ctxwrap.records import count_in, numbers_in, ranges
from ctxwrap.types import Body, Prefix, Record


class Part(NamedTuple):
    """Something that stands before the conversation."""

    text: str
    tokens: int


class Said(NamedTuple):
    """A message of the conversation: its number in the log, 0 if it has none, and its tokens."""

    number: int
    tokens: int


def prefix_of(head: Sequence[Part], conversation: Sequence[Said]) -> Prefix:
    digests = tuple(_digest(part.text) for part in head)
    return Prefix(digests, tuple(said.number for said in conversation))


def stable_tokens(before: Prefix | None, head: Sequence[Part], conversation: Sequence[Said]) -> int:
    """How many tokens a request begins with that the one before began with, too."""
    if before is None:
        return 0
    now, tokens = prefix_of(head, conversation), 0
    for digest, known, part in zip(now.head, before.head, head, strict=False):
        if digest != known:
            return tokens
        tokens += part.tokens
    for said, number in zip(conversation, before.messages, strict=False):
        if not number or said.number != number:
            break
        tokens += said.tokens
    return tokens


def tokens_taken(usage: Mapping[str, Any]) -> Record:
    """How many tokens of a request a provider says it took, and how many of them it knew already."""
    taken = next((n for name in ("prompt_tokens", "input_tokens") if (n := count_in(usage, name)) is not None), None)
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = count_in(details, "cached_tokens")
    if cached is None:
        cached = count_in(usage, "cache_read_input_tokens")
    known = {"input_tokens": taken, "cached_input_tokens": cached}
    return {name: count for name, count in known.items() if count is not None}


def body_hash(body: Body) -> str:
    """SHA-256 of a request as JSON with sorted keys, whatever an SDK adds on its way."""
    return sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def as_json(prefix: Prefix) -> Record:
    head = ["" if digest == _EMPTY else digest for digest in prefix.head]
    return {"head": head, "messages": ranges(prefix.messages)}


def from_json(value: Record) -> Prefix:
    return Prefix(tuple(str(each) or _EMPTY for each in value["head"]), tuple(numbers_in(str(value["messages"]))))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


_EMPTY = _digest("")
"""Of a part that is not there, which an event leaves out."""
