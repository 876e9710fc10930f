"""`context/pack.json` and `context/pack.md`: the newest pack, for whoever looks into the directory."""

import json

from ctxwrap.session.packs.markdown import markdown
from ctxwrap.session.packs.view import PackView
from ctxwrap.storage import Files

PACK_JSON = "context/pack.json"
PACK_MARKDOWN = "context/pack.md"


def save_pack(view: PackView, files: Files) -> None:
    files.save(PACK_JSON, json.dumps(view.as_json()).encode() + b"\n")
    files.save(PACK_MARKDOWN, markdown(view).encode("utf-8", "backslashreplace"))
