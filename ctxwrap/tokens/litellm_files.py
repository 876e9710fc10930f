"""Where litellm's data files lie; litellm itself is never imported for them, which takes seconds."""

import json
from contextlib import suppress
from importlib import util
from pathlib import Path
from typing import Any

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
