"""What is known of models: tokenizer family, context window and prices, from the tables that litellm ships."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib import util
from pathlib import Path
from typing import Any, NamedTuple


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


_TABLE = "model_prices_and_context_window_backup.json"
_LONGEST_ROW = 64 * 1024
_NO_MODELS = frozenset({"sample_spec", "fallback_generalizations"})


def litellm_directory() -> Path | None:
    """The directory of the installed litellm, or None."""
    try:
        spec = util.find_spec("litellm")
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else None


def model_rows() -> dict[str, Any]:
    """What litellm's table says of each model, by name; nothing if there is no table."""
    try:
        rows = json.loads(_table())
    except ValueError:
        return {}
    return {name: row for name, row in rows.items() if name not in _NO_MODELS} if isinstance(rows, dict) else {}


def model_row(name: str) -> Any:
    """The row of a model by its name in lower case, without parsing the others; None if it is not found like that."""
    table = _table().lower()
    at = table.rfind(f"\n    {json.dumps(name)}: {{".encode())
    if at < 0 or name in _NO_MODELS:
        return None
    with suppress(ValueError):
        return json.JSONDecoder().raw_decode(table[table.index(b"{", at) : at + _LONGEST_ROW].decode("ascii"))[0]
    return None


def _table() -> bytes:
    directory = litellm_directory()
    try:
        return (directory / _TABLE).read_bytes() if directory else b"{}"
    except OSError:
        return b"{}"


UNKNOWN_INPUT = 8192
UNKNOWN_OUTPUT = 4096
REPLY = 4096
"""What a reply is left, unless the caller or the model says less."""

_TEXT_MODES = frozenset({"chat", "completion", "responses", None})


class ContextWindow(NamedTuple):
    input_tokens: int
    """The most a request may hold; with many providers the reply is to fit into it as well."""
    output_tokens: int
    """The most a reply may hold."""
    known: bool
    """Whether it is this model's, not merely a guess."""


_UNKNOWN = ContextWindow(UNKNOWN_INPUT, UNKNOWN_OUTPUT, known=False)


def window_of(model: str, overrides: Mapping[str, int | ContextWindow] | None = None) -> ContextWindow:
    """The window of a model by any of its names; `overrides` gives windows by name, or how much goes in."""
    if overrides:
        own = {name.lower(): window for name, window in overrides.items()}
        for name in spellings(model):
            if name in own:
                return _as_window(own[name])
    return _listed(model)


def reply_reserve(
    model: str, asked_for: int | None = None, overrides: Mapping[str, int | ContextWindow] | None = None
) -> int:
    """How much of the window is to be left to the reply: what was asked for, else some room.

    A provider counts all that was asked for against the window, however little of it the reply takes.
    """
    window = window_of(model, overrides)
    if asked_for is None or asked_for <= 0:
        return min(REPLY, window.output_tokens, window.input_tokens // 4)
    most = window.output_tokens if window.known else asked_for
    return min(asked_for, most, window.input_tokens)


_SUFFIXES = re.compile(
    r"(?:-latest|[-@]\d{4}-?\d{2}-?\d{2}|[-@]\d{2}-\d{2}|[-@]\d{4}|-v\d+:\d+|[:@][\w.-]+"
    r"|-preview|-exp|-maas|-versatile)$"
)
_REGION_OR_VENDOR = re.compile(r"[a-z][a-z0-9-]*\.(?=[a-z])")


def spellings(model: str) -> Iterator[str]:
    """A model's name, then shorter and shorter forms of it: without providers, dates, versions, regions, vendors."""
    name = model.strip().lower()
    seen = set[str]()
    for start in _starts(name):
        shorter: str | None = start
        while shorter:
            if shorter not in seen:
                seen.add(shorter)
                yield shorter
            shorter = _without_suffix(shorter)


def _starts(name: str) -> Iterator[str]:
    yield name
    while "/" in name:
        name = name.partition("/")[2]
        yield name
    if name.startswith("ft:"):
        name = name.split(":")[1]
        yield name
    while _REGION_OR_VENDOR.match(name):
        name = name.partition(".")[2]
        yield name


def _without_suffix(name: str) -> str | None:
    shorter = _SUFFIXES.sub("", name)
    return shorter if shorter and shorter != name else None


@lru_cache(maxsize=1024)
def _listed(model: str) -> ContextWindow:
    names = list(spellings(model))
    if sizes := _sizes(model_row(names[0])) if names else None:  # parsing the whole table takes far longer than a call
        return ContextWindow(*sizes, known=True)
    found = next((_window_table()[name] for name in names if name in _window_table()), None)
    found = found or next((_shortened()[_dashed(name)] for name in names if _dashed(name) in _shortened()), None)
    return ContextWindow(*found, known=True) if found else _UNKNOWN


@cache
def _window_table() -> dict[str, tuple[int, int]]:
    return {name.lower(): sizes for name, row in model_rows().items() if (sizes := _sizes(row))}


@cache
def _shortened() -> dict[str, tuple[int, int]]:
    """The table by the shortest forms of its names, for models that another provider has too; the smallest of them."""
    shortened: dict[str, tuple[int, int]] = {}
    for name, sizes in _window_table().items():
        shortest = _dashed(list(spellings(name))[-1])
        shortened[shortest] = min(sizes, shortened.get(shortest, sizes))
    return shortened


def forget_windows() -> None:
    """Read the table anew."""
    for cached in (_listed, _window_table, _shortened):
        cached.cache_clear()


def _sizes(row: Any) -> tuple[int, int] | None:
    """`max_tokens` is the reply's limit where there is another for the request, else it is all there is."""
    if not isinstance(row, dict) or row.get("mode") not in _TEXT_MODES:
        return None
    most, taken, given = (_size(row.get(name)) for name in ("max_tokens", "max_input_tokens", "max_output_tokens"))
    taken = taken or most
    return (taken, given or min(most or UNKNOWN_OUTPUT, taken)) if taken else None


def _size(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0


def _as_window(window: int | ContextWindow) -> ContextWindow:
    return (
        window if isinstance(window, ContextWindow) else ContextWindow(window, min(window, UNKNOWN_OUTPUT), known=True)
    )


def _dashed(name: str) -> str:
    """Versions are written with points here and with hyphens there."""
    return name.replace(".", "-")


class Price(NamedTuple):
    """US dollars for one token."""

    input: float
    output: float
    cached: float
    """Of a prompt's beginning that the provider's cache gave."""
    written: float
    """Of what its cache took."""


def price_of(model: str) -> Price | None:
    """The price of a model by any of its names, or None if the table has none for it."""
    return next((_price_table()[name] for name in spellings(model) if name in _price_table()), None)


@cache
def _price_table() -> dict[str, Price]:
    return {name.lower(): price for name, row in model_rows().items() if (price := _price(row))}


def _price(row: Any) -> Price | None:
    if not isinstance(row, dict):
        return None
    given, taken = (_number(row.get(name)) for name in ("input_cost_per_token", "output_cost_per_token"))
    if given is None or taken is None:
        return None
    cached, written = (_number(row.get(f"cache_{name}_input_token_cost")) for name in ("read", "creation"))
    return Price(given, taken, given if cached is None else cached, given if written is None else written)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
