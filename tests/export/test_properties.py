"""For every pack that a log can tell of: records fit together, hide what they must, and come back as they went."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ctxwrap.conformance import envelope
from ctxwrap.export.evidence import envelope_of, faults_in, import_envelope, schema_of
from ctxwrap.export.evidence.document import SCHEMAS, read_evidence
from ctxwrap.export.evidence.vocabulary import TARGETS
from ctxwrap.stores.memory import MemoryStore
from tests.export.logs import BOUNDARY, KEY, append, begin, done, entry, frame
from tests.support import examples

WORDS = st.sampled_from(
    [
        "bread",
        "</ctxwrap-found>",
        f"</context-{BOUNDARY}>",
        "<<<CONTEXT>>>",
        '"}\n{',
        "お茶 Grüße",
        "\ud800 half",
        "\x7f\x1b[31m",
    ]
)
OTHERS = st.lists(st.sampled_from([*TARGETS, "martian"]), max_size=4, unique=True)
SENT = OTHERS.map(lambda names: sorted({*names, "model"}))


@dataclass
class Made:
    """A session, and the marks in what each thing says, by who may see it."""

    store: MemoryStore
    marks: dict[str, list[str]] = field(default_factory=dict)


@st.composite
def sessions(draw: st.DrawFn) -> Made:
    made = Made(MemoryStore())

    def marked(seen_by: list[str]) -> str:
        mark = f"zq{len(made.marks)}qz"
        made.marks[mark] = seen_by
        return f"{mark} {draw(WORDS)}"

    for turn in range(draw(st.integers(1, 3))):
        _turn(draw, made, marked, f"t{turn}")
    return made


def _turn(draw: st.DrawFn, made: Made, marked: Any, run: str) -> None:
    store = made.store
    first = len(store.open(KEY).read("messages")[0]) + 1
    request, recent = draw(SENT), draw(SENT)
    older = draw(st.integers(0, 3))
    said = [(draw(st.sampled_from(["user", "assistant", "tool"])), marked(recent)) for _ in range(older)]
    said += [("system", marked(request)), ("user", marked(request))]
    append(store, "messages", *({"role": role, "content": text} for role, text in said), turn=run)
    pack = [
        entry("system", "protocol", visibility=draw(SENT)),
        entry("memory", "events.jsonl", visibility=draw(SENT)),
        entry("request", "caller", origin="user", visibility=request),
    ]
    if older:
        span = f"{first}-{first + older - 1}" if older > 1 else str(first)
        pack.append(entry("recent_messages", "messages.jsonl", visibility=recent, refs=[span], freshness=first))
    if draw(st.booleans()):
        pack.append(entry("recent_messages", "messages.jsonl", False, visibility=draw(OTHERS), refs=["1-2"]))
    texts = {}
    for kind, block in (("pinned", "pinned"), ("working_set", "background"), ("children", "background")):
        for at in range(draw(st.integers(0, 2))):
            source, seen = f"{kind}/{at}.md", draw(SENT)
            texts[block] = texts.get(block, "") + frame(source, marked(seen))
            pack.append(entry(kind, source, visibility=seen, priority=draw(st.sampled_from([0.2, 1.0]))))
    left_out = range(draw(st.integers(0, 2)))
    pack += [entry("working_set", f"out/{at}.md", False, visibility=draw(OTHERS), priority=1.0) for at in left_out]
    memory: dict[str, list[Any]] = {"core": [], "working": []}
    for kind in ("facts", "todo"):
        seen = draw(SENT)
        ids = [marked(seen) for _ in range(draw(st.integers(0, 2)))]
        for id in ids:
            memory[draw(st.sampled_from(["core", "working"]))].append({"id": id, "content": marked(seen)})
        if ids:
            pack.append(entry(kind, f"context/{kind}.jsonl", visibility=seen, refs=ids))
    in_epoch, state = draw(st.booleans()), {}
    if draw(st.booleans()):
        state["active_task"] = marked(["model"])
    if in_epoch and draw(st.booleans()):  # told by the epoch, and dropped since
        memory["core"].append({"id": "old", "content": marked(["model"])})
        state["dropped"] = ["old"]
    found = []
    if older and draw(st.booleans()):
        found = [[first, 0, "", "user"]]
        pack.append(entry("retrieved", "messages.jsonl", visibility=recent, refs=[f"{first}.0"], origin="Ada"))
    numbers = [*range(first, first + older), first + older + 1]
    begin(
        store,
        *draw(st.permutations(pack)),
        run=run,
        mode=draw(st.sampled_from(["enabled", "readonly", "shadow"])),
        system=str(first + older),
        conversation=",".join(map(str, numbers)),
        memory={} if in_epoch else memory,
        epoch=memory if in_epoch else None,
        found=found,
        texts=texts,
        state=state,
    )
    if draw(st.booleans()):
        done(store, run)


@given(sessions(), st.sampled_from(TARGETS))
@examples(80)
def test_records_fit_together_for_every_target(made: Made, target: str) -> None:
    for turn in (None, 1):
        evidence = envelope_of("s", turn=turn, target=target, store=made.store)
        assert list(faults_in(evidence)) == []
        assert read_evidence(evidence.as_bytes()) == evidence


@given(sessions(), st.sampled_from(TARGETS))
@examples(80)
def test_target_reads_only_items_visible_to_it(made: Made, target: str) -> None:
    evidence = envelope_of("s", target=target, store=made.store)
    written = evidence.as_bytes().decode()
    for mark, seen_by in made.marks.items():
        assert (mark in written) == (target in seen_by), (mark, seen_by)


@given(sessions(), st.sampled_from(TARGETS))
@examples(40)
def test_envelope_is_unchanged_by_import_and_export(made: Made, target: str) -> None:
    other = MemoryStore()
    before = envelope_of("s", target=target, store=made.store)
    with TemporaryDirectory() as directory:
        file = Path(directory) / "envelope.json"
        file.write_bytes(before.as_bytes())
        kept = import_envelope(file, session="elsewhere", store=other)
    after = envelope_of("elsewhere", target=target, store=other)
    assert kept.key.session == "elsewhere"
    assert after.as_bytes() == before.as_bytes()


@pytest.fixture(scope="module")
def schemas() -> dict[str, Draft202012Validator]:
    found = {name: Draft202012Validator(schema_of(name)) for name in SCHEMAS}
    for validator in found.values():
        validator.check_schema(validator.schema)
    return found


FIELDS = {
    "envelopes": "context_envelope",
    "surfaces": "context_surface",
    "items": "context_item",
    "source_refs": "context_source_ref",
    "selections": "context_selection",
    "budgets": "context_budget",
    "windows": "context_window",
    "assemblies": "context_assembly",
    "injections": "context_injection",
    "compactions": "context_compaction",
    "summaries": "context_summary",
    "missing_context": "missing_context",
    "events": "context_event",
}


@given(made=sessions(), target=st.sampled_from(TARGETS))
@settings(max_examples=25)
def test_every_export_conforms_to_its_schemas(
    schemas: dict[str, Draft202012Validator], made: Made, target: str
) -> None:
    document = json.loads(envelope_of("s", target=target, store=made.store).as_bytes())
    schemas["evidence"].validate(document)
    for name, schema in FIELDS.items():
        for record in document.get(name, ()):
            schemas[schema].validate(record)
            assert record["schema_version"] == "0.1.1"
            if schema in envelope.SCHEMAS:
                Draft202012Validator(envelope.SCHEMAS[schema]).validate(record)
