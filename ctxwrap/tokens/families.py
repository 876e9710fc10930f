"""Which models share a tokenizer, by the beginnings of their names, and how far each is from one that is at hand."""

from collections.abc import Iterator
from typing import NamedTuple


class Family(NamedTuple):
    """Models whose tokenizer is not public or not here, as multiples of an encoding that is."""

    base: str
    latin: float
    """Tokens for one of the base's in text of ASCII characters."""
    other: float
    """The same for all other text."""
    single_digits: bool = False
    """Every digit is a token; the encodings have up to three in one."""
    margin: float = 0.2


_CLAUDE = Family("cl100k_base", 1.2, 1.15)
_CLAUDE_SINCE_OPUS_4_7 = Family("cl100k_base", 1.65, 1.15)
"""Its tokenizer makes half as many tokens again of Latin script, and the same of others."""

_SMALL_VOCABULARY = Family("cl100k_base", 1.15, 1.1, single_digits=True, margin=0.25)
"""32 000 tokens, as of Llama 2 and the earlier Mistral models."""

UNKNOWN = Family("o200k_base", 1.15, 1.3, single_digits=True, margin=0.25)

_BY_PREFIX: dict[str, str | Family] = {
    "gpt-4o": "o200k_base",
    "gpt-4.1": "o200k_base",
    "gpt-4.5": "o200k_base",
    "gpt-5": "o200k_base",
    "gpt-oss": "o200k_base",  # harmony is the same but for its special tokens
    "chatgpt-4o": "o200k_base",
    "o1": "o200k_base",
    "o3": "o200k_base",
    "o4-mini": "o200k_base",
    "codex-mini": "o200k_base",
    "gpt-4": "cl100k_base",
    "gpt-3.5": "cl100k_base",
    "gpt-35-turbo": "cl100k_base",
    "davinci-002": "cl100k_base",
    "babbage-002": "cl100k_base",
    "text-embedding-ada-002": "cl100k_base",
    "text-embedding-3": "cl100k_base",
    "text-davinci-003": "p50k_base",
    "text-davinci-002": "p50k_base",
    "code-davinci-002": "p50k_base",
    "gpt-": Family("o200k_base", 1.0, 1.0, margin=0.15),
    "claude": _CLAUDE_SINCE_OPUS_4_7,
    "claude-instant": _CLAUDE,
    "claude-v1": _CLAUDE,
    "claude-v2": _CLAUDE,
    "claude-2": _CLAUDE,
    "claude-3": _CLAUDE,
    "claude-4": _CLAUDE,
    "claude-opus-4": _CLAUDE,
    "claude-sonnet-4": _CLAUDE,
    "claude-haiku-4": _CLAUDE,
    **{
        f"claude-{name}": _CLAUDE_SINCE_OPUS_4_7
        for version in ("4-7", "4.7", "4-8", "4.8", "4-9", "4.9")
        for name in (version, f"opus-{version}", f"sonnet-{version}", f"haiku-{version}")
    },
    "gemini": Family("o200k_base", 1.05, 1.0, single_digits=True),
    "gemma": Family("o200k_base", 1.05, 1.0, single_digits=True),
    "llama": Family("o200k_base", 1.05, 1.25),
    "llama-2": _SMALL_VOCABULARY,
    "llama2": _SMALL_VOCABULARY,
    "codellama": _SMALL_VOCABULARY,
    "mistral": _SMALL_VOCABULARY,
    "mixtral": _SMALL_VOCABULARY,
    "ministral": _SMALL_VOCABULARY,
    "codestral": _SMALL_VOCABULARY,
    "magistral": _SMALL_VOCABULARY,
    "devstral": _SMALL_VOCABULARY,
    "pixtral": _SMALL_VOCABULARY,
    "deepseek": Family("o200k_base", 1.05, 1.15),
    "qwen": Family("o200k_base", 1.05, 1.2, single_digits=True),
    "qwq": Family("o200k_base", 1.05, 1.2, single_digits=True),
}

_LONGEST_FIRST = sorted(_BY_PREFIX, key=len, reverse=True)


def family_of(model: str) -> str | Family:
    """The encoding of a model, or the family it is estimated with."""
    prefix = known_prefix(model, _LONGEST_FIRST)
    return _BY_PREFIX[prefix] if prefix else UNKNOWN


def known_prefix(model: str, longest_first: list[str]) -> str:
    """The longest known beginning of a model's own name, behind providers, regions and vendors; empty if none is."""
    for name in _beginnings(model):
        for prefix in longest_first:
            if name.startswith(prefix) and not _splits_a_number(prefix, name):
                return prefix
    return ""


def _beginnings(model: str) -> Iterator[str]:
    """Where a model's own name may begin: in its last part rather than in a provider's, and there from the left.

    Behind a hyphen only longer names are told apart from a mere part of a name.
    """
    name = model.strip().lower()
    last = name.rpartition("/")[2]
    for text in (last, name):
        yield text
        for at, character in enumerate(text):
            tail = text[at + 1 :]
            if character in ":./@" or (character in "-_" and tail[:1].isalpha() and tail[1:2].isalpha()):
                yield tail


def _splits_a_number(prefix: str, name: str) -> bool:
    return prefix[-1].isdigit() and name[len(prefix) : len(prefix) + 1].isdigit()
