"""`context/pack.json` and `context/pack.md`: the newest pack, for whoever looks into the directory."""

import json
from typing import Any

from ctxwrap.session.packs.markdown import markdown
from ctxwrap.session.packs.view import PackView
from ctxwrap.storage import Files
from ctxwrap.types import Record

PACK_JSON = "context/pack.json"
PACK_MARKDOWN = "context/pack.md"


def save_pack(view: PackView, files: Files) -> None:
    files.save(PACK_JSON, _written(view.as_json()).encode() + b"\n")
    files.save(PACK_MARKDOWN, markdown(view).encode("utf-8", "backslashreplace"))


def _written(told: Record) -> str:
    """JSON with a line for every item, since indenting everything takes longer than the turn's own records."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {_listed(value)}" for name, value in told.items()) + "\n}"


def _listed(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(each) for each in value) + "\n]"
