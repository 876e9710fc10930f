"""The words of the snapshot: its keys, their places, the other spellings models use for them, and its limits."""

import re

TIERS = ("core", "working", "ephemeral")
ROOT_KEYS = ("version", "runtime", "memory", "capabilities", "active_task")
OPTIONAL_KEYS = ("dropped", "working_set", "missing")
RUNTIME_KEYS = ("round", "datetime", "startup_at")
ITEM_KEYS = ("id", "type", "decay", "round", "tags", "content")
CAPABILITY_KEYS = ("name", "scope")

MAX_ITEMS = 1000
MAX_CONTENT = 16_384
MAX_WORD = 200
MAX_TAGS = 64
MAX_DEPTH = 32
MAX_QUESTIONS = 8
MAX_QUESTION = 300

KNOWN_KEYS = frozenset((*ROOT_KEYS, *OPTIONAL_KEYS, *RUNTIME_KEYS, *TIERS, *ITEM_KEYS, *CAPABILITY_KEYS))

_ALIASES = {
    "capability": "capabilities",
    "memories": "memory",
    "task": "active_task",
    "current_task": "active_task",
    "tag": "tags",
    "text": "content",
}
_TIER_ALIASES = {
    "long_term": "core",
    "longterm": "core",
    "permanent": "core",
    "persistent": "core",
    "identity": "core",
    "task": "working",
    "tasks": "working",
    "active": "working",
    "work": "working",
    "medium_term": "working",
    "short_term": "working",
    "shortterm": "working",
    "temporary": "ephemeral",
    "temp": "ephemeral",
    "transient": "ephemeral",
}


def spelled(key: str) -> str:
    """A key in the document's way of writing: lower case, words joined by underscores, without marks around it."""
    key = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip(" \t\r\n{}[],:\"'"))
    return re.sub(r"[\s-]+", "_", key).lower()


def canonical_key(key: str) -> str:
    """The key that is meant, or the key itself if it is none of ours."""
    if key in KNOWN_KEYS:
        return key
    name = spelled(key)
    if name in KNOWN_KEYS:
        return name
    name = _ALIASES.get(name, name)
    return name if name in KNOWN_KEYS else key


def is_ellipsis(value: object) -> bool:
    """Whether a model wrote this for "and so on"."""
    return isinstance(value, str) and value.strip().startswith(("...", "…"))


def canonical_tier(key: str) -> str:
    """The tier that is meant, or nothing."""
    name = spelled(key).removesuffix("_memory").removesuffix("_memories")
    name = _TIER_ALIASES.get(name, name)
    return name if name in TIERS else ""
