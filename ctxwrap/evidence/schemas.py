"""The JSON Schemas of all records and of a whole document, made of the types that check them."""

from collections.abc import Mapping
from typing import Any

from ctxwrap.errors import unknown_name
from ctxwrap.evidence.document import Document
from ctxwrap.evidence.forms import Strict
from ctxwrap.evidence.objects import OBJECTS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAMED: Mapping[str, type[Strict]] = {**OBJECTS, "evidence": Document}
"""The thirteen objects, and the document that carries them."""


def schema_of(name: str) -> dict[str, Any]:
    """The schema of an object by its name, such as `context_item` or `item`."""
    known = next((each for each in NAMED if name in (each, each.removeprefix("context_"))), None)
    if known is None:
        raise unknown_name("object", name, NAMED)
    return {"$schema": DIALECT, **NAMED[known].model_json_schema(), "title": known}
