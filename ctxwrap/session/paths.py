"""Paths and addresses that stand in a text: found word by word, and rather none than a wrong one."""

import re
from collections.abc import Iterator

_LONGEST_PATH = 300
_AROUND = "()[]{}<>\"'`“”‘’«»,;:!?*，。；：！？（）"
_PART = re.compile(r"[\w.+@~%-]+")
_ADDRESS = re.compile(r"(?:https?|ftp|file|s3|git|ssh)://\S+")
_EXTENSION = re.compile(
    "bat|c|cfg|conf|cpp|cs|css|csv|doc|docx|env|go|h|hpp|html|ini|ipynb|java|jpeg|jpg|js|json|jsonl|jsx|kt|lock|log|lua"
    "|md|mp3|mp4|parquet|patch|pdf|php|png|ppt|pptx|proto|ps1|py|pyi|rb|rs|rst|scala|sh|sql|svg|swift|tar|tex|toml|ts"
    "|tsv|tsx|txt|vue|wav|xls|xlsx|xml|yaml|yml|zip"
)


def paths_in(text: str) -> Iterator[str]:
    """The paths and addresses in a text, in their order."""
    for word in text.split():
        path = word.lstrip(_AROUND).rstrip(f"{_AROUND}.").removeprefix("./")
        if ("/" in path or "." in path) and len(path) <= _LONGEST_PATH and _is_place(path):
            yield path


def is_address(path: str) -> bool:
    return "://" in path


def _is_place(path: str) -> bool:
    if is_address(path):
        return _ADDRESS.fullmatch(path) is not None and path.isprintable() and not {".", ".."} & set(path.split("/"))
    parts = path.removesuffix("/").split("/")
    is_absolute = parts[0] == "" and len(parts) > 1
    named = parts[1:] if is_absolute else parts
    if not all(_PART.fullmatch(part) and part.strip(".") for part in named):
        return False
    stem, dot, extension = named[-1].rpartition(".")
    has_extension = bool(stem and dot) and _EXTENSION.fullmatch(extension.casefold()) is not None
    return has_extension or (is_absolute and len(named) > 1)
