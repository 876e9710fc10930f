"""Where litellm's data files lie; litellm itself is never imported for them, which takes seconds."""

import json
from importlib import util
from pathlib import Path
from typing import Any

_TABLE = "model_prices_and_context_window_backup.json"
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
    directory = litellm_directory()
    try:
        rows = json.loads((directory / _TABLE).read_bytes()) if directory else {}
    except (OSError, ValueError):
        return {}
    return {name: row for name, row in rows.items() if name not in _NO_MODELS} if isinstance(rows, dict) else {}
