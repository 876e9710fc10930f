"""Types that validate the snapshot and define its JSON Schema."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from ctxwrap.protocol.vocabulary import (
    MAX_CAPABILITIES,
    MAX_CONTENT,
    MAX_ITEMS,
    MAX_QUESTION,
    MAX_QUESTIONS,
    MAX_TAGS,
    MAX_WORD,
)
from ctxwrap.types import Severity

_STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
_OPEN = ConfigDict(strict=True, allow_inf_nan=False, extra="allow")

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD)]


@with_config(_STRICT)
class Runtime(TypedDict):
    """What only the system may set."""

    round: Annotated[int, Field(ge=0)]
    datetime: str
    startup_at: str


@with_config(_OPEN)
class Item(TypedDict):
    """One thing remembered."""

    id: Annotated[Word, Field(description="Unique over all tiers, and kept for the same fact.")]
    type: Annotated[Word, Field(description="Such as identity, preference, fact, task, decision or hint.")]
    decay: Annotated[float, Field(ge=0, le=1, description="From 0, most important, to 1, least important.")]
    round: Annotated[int, Field(ge=0, description="The round in which it was last touched.")]
    tags: Annotated[list[str], Field(max_length=MAX_TAGS)]
    content: Annotated[str, Field(min_length=1, max_length=MAX_CONTENT, description="One plain statement.")]


Tier = Annotated[list[Item], Field(max_length=MAX_ITEMS)]


@with_config(_STRICT)
class Memory(TypedDict):
    """What is remembered, by how long it matters."""

    core: Tier
    working: Tier
    ephemeral: Tier


@with_config(_STRICT)
class Question(TypedDict):
    """Something that the model needs to know and was not told."""

    question: Annotated[str, Field(max_length=MAX_QUESTION, pattern=r"\S")]
    severity: NotRequired[Severity]
    needed_for: NotRequired[Annotated[str, Field(max_length=MAX_QUESTION)]]
    asked: Annotated[NotRequired[Literal["user", "operator", "tool", ""]], Field(description="Whom the model asked.")]


@with_config(_STRICT)
class Snapshot(TypedDict):
    """The state behind a reply."""

    version: Literal["2.2"]
    runtime: Runtime
    memory: Memory
    dropped: NotRequired[Annotated[list[Word], Field(max_length=MAX_ITEMS)]]
    """Ids of removed items, where memory lists only new and changed ones."""
    unchanged: NotRequired[Annotated[list[Word], Field(max_length=MAX_ITEMS)]]
    """Ids of items that are shown elsewhere and have not changed."""
    working_set: NotRequired[Annotated[list[Any], Field(max_length=MAX_ITEMS)]]
    """The model's requests to its working set."""
    missing: NotRequired[Annotated[list[Question], Field(max_length=MAX_QUESTIONS)]]
    """All open questions; if absent, they stay as they were."""
    capabilities: Annotated[list[dict[str, Any] | str], Field(max_length=MAX_CAPABILITIES)]
    active_task: Annotated[str, Field(max_length=MAX_CONTENT)]


_SNAPSHOT = TypeAdapter(Snapshot)
_ITEM = TypeAdapter(Item)


is_valid = _SNAPSHOT.validator.isinstance_python
"""Whether a snapshot is valid by itself."""


def fault_of(item: Any) -> str:
    """Return the first fault of an item, or ""."""
    try:
        _ITEM.validator.validate_python(item)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}".removeprefix(": ")
    return ""


def json_schema() -> dict[str, Any]:
    """Return the snapshot's JSON Schema, for exports and other implementations."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_SNAPSHOT.json_schema()}
