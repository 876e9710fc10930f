"""One portable document: records, the contents that they refer to, and a digest over all of it."""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from ctxwrap.errors import InvalidArchive
from ctxwrap.evidence.forms import Digest, Id, Strict
from ctxwrap.evidence.objects import (
    Assembly,
    Budget,
    Compaction,
    Envelope,
    Event,
    Injection,
    Item,
    Missing,
    Selection,
    SourceRef,
    Summary,
    Surface,
    Window,
)
from ctxwrap.evidence.vocabulary import Target

FORMAT = "agent-context-evidence"
"""By which an import knows such a file."""

_TOLD = 5
"""So many faults stand in an error."""


class Evidence(Strict):
    """The records of one turn or session, as one target may see them."""

    target: Target
    root: Id
    """The envelope that stands for all of it."""
    envelopes: Annotated[tuple[Envelope, ...], Field(min_length=1)]
    surfaces: tuple[Surface, ...] = ()
    items: tuple[Item, ...] = ()
    source_refs: tuple[SourceRef, ...] = ()
    selections: tuple[Selection, ...] = ()
    budgets: tuple[Budget, ...] = ()
    windows: tuple[Window, ...] = ()
    assemblies: tuple[Assembly, ...] = ()
    injections: tuple[Injection, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    summaries: tuple[Summary, ...] = ()
    missing_context: tuple[Missing, ...] = ()
    events: tuple[Event, ...] = ()
    policies: dict[Id, str] = Field(default_factory=dict)
    """What each policy says that records name."""
    contents: dict[Digest, str] = Field(default_factory=dict)
    """Texts by the SHA-256 of their UTF-8 bytes."""

    @property
    def envelope(self) -> Envelope:
        return next(each for each in self.envelopes if each.context_id == self.root)

    def as_json(self) -> dict[str, Any]:
        """The whole document, with its digest."""
        told = {"format": FORMAT, "version": 1, **self.model_dump(mode="json")}
        return {**told, "digest": _digest_of(told)}

    def as_bytes(self) -> bytes:
        """The document as a file holds it, a record a line; the same bytes for the same evidence."""
        fields = (f" {json.dumps(name)}: {_lines(value)}" for name, value in self.as_json().items())
        return ("{\n" + ",\n".join(fields) + "\n}\n").encode()


class Document(Evidence):
    """Evidence as a file holds it."""

    format: Literal["agent-context-evidence"]
    version: Literal[1]
    digest: Digest


def evidence_in(data: bytes) -> Evidence:
    """The evidence that a document holds, each record checked by itself; an InvalidArchive if it holds none.

    Whether the records fit together is another question, which `integrity` answers.
    """
    try:
        document = Document.model_validate_json(data)
    except ValidationError as error:
        raise InvalidArchive(f"it is no evidence that can be read: {_told(error)}") from None
    given = document.model_dump(mode="json")
    if given.pop("digest") != _digest_of({"format": FORMAT, "version": 1, **given}):
        raise InvalidArchive("its digest is not that of its records: it was changed or damaged")
    return Evidence.model_validate({name: getattr(document, name) for name in Evidence.model_fields})


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _lines(value: Any) -> str:
    if isinstance(value, list):
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
    if isinstance(value, dict):
        return (
            "{\n  " + ",\n  ".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in value.items()) + "\n }"
        )
    return json.dumps(value)


def _digest_of(told: dict[str, Any]) -> str:
    return digest(json.dumps(told, sort_keys=True, separators=(",", ":")))


def _told(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:_TOLD]]
    more = len(found) - _TOLD
    return "; ".join(faults) + (f" and {more} more" if more > 0 else "")
