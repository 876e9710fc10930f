"""Where litellm's data files lie; litellm itself is never imported for them, which takes seconds."""

from importlib import util
from pathlib import Path


def litellm_directory() -> Path | None:
    """The directory of the installed litellm, or None."""
    try:
        spec = util.find_spec("litellm")
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else None
