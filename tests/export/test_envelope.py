"""Envelopes out of a session and into another: what they hold for whom, and what is refused on the way in."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.errors import InvalidArchive, NotFound, SettingsError, StoreCorrupt
from ctxwrap.export.evidence import check_envelope, diff_of, envelope_of, faults_in, import_envelope
from ctxwrap.export.evidence.document import digest
from ctxwrap.inspect import memory_of
from ctxwrap.session.blobs import stored
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Provider
from tests.export.logs import FIXED, KEY, Chat, append, begin, entry, say
from tests.support import item, trailer


@pytest.fixture
def store(home: Path) -> FileStore:
    return FileStore(home)


@pytest.fixture
def chat(provider: Provider, store: FileStore) -> Chat:
    return Chat(provider, store)


@pytest.fixture
def file(chat: Chat, store: FileStore, tmp_path: Path) -> Path:
    """The envelope of a session of two turns, for the model."""
    chat.say("My name is Ada.")
    chat.say("What is my name?")
    path = tmp_path / "envelope.json"
    path.write_bytes(envelope_of("s", target="model", store=store).as_bytes())
    return path


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


# --- what is in it --------------------------------------------------------------------------------------


def test_envelope_has_no_text_by_default(chat: Chat, store: FileStore) -> None:
    answer = lambda ask: Answer("Noted." + trailer(ask, [item("her-name-is-ada", "her name is Ada")]))  # noqa: E731
    chat.say("My name is Ada Lovelace.", answer=answer)
    chat.say("Tea, please.")
    evidence = envelope_of("s", store=store)
    written = evidence.as_bytes().decode().lower()
    assert (evidence.target, evidence.contents) == ("evidence_export", {})
    assert not [word for word in ("lovelace", "her-name", "her name", "tea", "noted") if word in written]
    assert "lovelace" in envelope_of("s", target="model", store=store).as_bytes().decode().lower()


def test_the_same_log_gives_the_same_bytes(file: Path, store: FileStore) -> None:
    from datetime import UTC, datetime

    now = datetime(2026, 1, 1, tzinfo=UTC)
    one, other = (envelope_of("s", store=FileStore(store.root), now=now).as_bytes() for _ in range(2))
    assert one == other


@pytest.mark.parametrize(("mode", "lifecycle"), [("shadow", "assembled"), ("disabled", "available")])
def test_unsent_items_are_not_exported_as_injected(chat: Chat, store: FileStore, mode: str, lifecycle: str) -> None:
    chat.say("Hello!", context_mode=mode)
    evidence = envelope_of("s", turn=1, target="model", store=store)
    assert (evidence.envelope.lifecycle, evidence.injections) == (lifecycle, ())
    assert list(faults_in(evidence)) == []


def test_session_envelope_contains_the_envelopes_of_its_turns(file: Path, store: FileStore) -> None:
    whole = check_envelope(file)
    assert (whole.envelope.scope, [each.scope for each in whole.envelopes]) == ("session", ["session", "turn", "turn"])
    for turn in (1, 2):
        alone = envelope_of("s", turn=turn, target="model", store=store)
        assert {each.item_id for each in alone.items} <= {each.item_id for each in whole.items}
        assert alone.contents.items() <= whole.contents.items()


def test_messages_missing_from_the_log_are_marked(store: FileStore) -> None:
    say(store, ("user", "hi"))
    begin(store, *FIXED, conversation="0,1,7")
    evidence = envelope_of("s", turn=1, target="model", store=store)
    assert list(faults_in(evidence)) == []
    assert sorted(each.content_mode for each in evidence.items if each.context_kind == "user_message") == [
        "opaque",
        "opaque",
        "ref",
    ]


def test_item_sent_to_a_forbidden_target_is_a_fault(store: FileStore) -> None:
    say(store, ("user", "hi"))
    begin(store, *FIXED, entry("facts", "context/facts.jsonl", refs=["f"], visibility=["ui"]), conversation="1")
    assert any("may not see it" in fault for fault in faults_in(envelope_of("s", turn=1, store=store)))


def test_meaningless_record_is_reported(store: FileStore) -> None:
    say(store, ("user", "hi"))
    begin(store, *FIXED, {**entry("pinned", "a"), "tokens": "many"}, conversation="1")
    with pytest.raises(StoreCorrupt, match="cannot be exported as evidence"):
        envelope_of("s", turn=1, store=store)


def test_unknown_session_or_turn_is_not_found(chat: Chat, store: FileStore) -> None:
    with pytest.raises(NotFound, match="no session 'nobody'"):
        envelope_of("nobody", store=store)
    chat.say("Hello!")
    with pytest.raises(NotFound, match="has no turn 9"):
        envelope_of("s", turn=9, store=store)
    with pytest.raises(SettingsError, match="unknown target 'modle': did you mean 'model'"):
        envelope_of("s", target="modle", store=store)


def test_envelope_of_another_tenants_session_is_not_found(provider: Provider, store: FileStore) -> None:
    Chat(provider, store, tenant="acme").say("Hello!")
    with pytest.raises(NotFound):
        envelope_of("s", store=store)


# --- in again -------------------------------------------------------------------------------------------


def test_an_imported_envelope_is_evidence_and_nothing_else(file: Path, home: Path) -> None:
    other = FileStore(home.parent / "other")
    kept = import_envelope(file, store=other, tenant="acme")
    assert kept.key == ("acme", "default", "s")
    assert envelope_of("s", target="model", store=other, tenant="acme").as_bytes() == file.read_bytes()
    with pytest.raises(SettingsError, match="for the target model, not evidence_export"):
        envelope_of("s", store=other, tenant="acme")
    assert memory_of(other, kept.key)["memory"] == {"core": [], "working": [], "ephemeral": []}
    assert other.open(kept.key).read("messages")[0] == []
    report = ctxwrap.verify("s", store=other, tenant="acme")
    assert report.findings == ()


def test_imported_evidence_is_archived_and_kept_by_gc(file: Path, home: Path, tmp_path: Path) -> None:
    other, third = FileStore(home.parent / "other"), MemoryStore()
    import_envelope(file, store=other)
    assert ctxwrap.collect_garbage("s", store=other).files == ()
    ctxwrap.export_session("s", tmp_path / "s.zip", store=other)
    ctxwrap.import_session(tmp_path / "s.zip", store=third)
    assert envelope_of("s", target="model", store=third).as_bytes() == file.read_bytes()


def test_envelope_import_does_not_change_an_existing_session(file: Path, store: FileStore) -> None:
    before = store.open(KEY).read("events")
    with pytest.raises(SettingsError, match="already"):
        import_envelope(file, store=store)
    assert store.open(KEY).read("events") == before
    assert import_envelope(file, session="copy", store=store).key.session == "copy"


def resealed(document: dict[str, Any]) -> bytes:
    """A document that somebody changed who knows how its digest is made."""
    told = {name: value for name, value in document.items() if name != "digest"}
    sealed = digest(json.dumps(told, sort_keys=True, separators=(",", ":")))
    return json.dumps({**told, "digest": sealed}).encode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda document: document["items"][0].update(context_kind="nope"), "context_kind"),
        (lambda document: document["items"][0].update(note="x"), "Additional properties are not allowed"),
        (lambda document: document["items"][0]["metadata"].update(turn_status="completed"), "states an outcome"),
        (lambda document: document["items"].pop(), "which does not exist"),
        (lambda document: document["contents"].update({digest("x"): "y"}), "the digest of another text"),
        (lambda document: document["envelopes"][0].pop("session_id"), "lacks the runtime's session id"),
        (lambda document: document.update(target="ui"), "that ui may not see"),
        (lambda document: document.update(version=2), "version"),
    ],
)
def test_tampered_envelope_is_rejected(file: Path, change: Any, words: str) -> None:
    document = json.loads(file.read_bytes())
    change(document)
    file.write_bytes(resealed(document))
    with pytest.raises(InvalidArchive, match=words):
        import_envelope(file, store=MemoryStore())
    file.write_bytes(json.dumps(document).encode())
    with pytest.raises(InvalidArchive):
        check_envelope(file)


def test_changed_byte_of_imported_evidence_is_detected(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"number": 1', b'"number": 3'))
    with pytest.raises(InvalidArchive, match="it was changed or damaged"):
        check_envelope(file)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{" * 100_000, b'{"format": "agent-context-evidence"}']
)
def test_invalid_envelope_is_rejected(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(InvalidArchive, match="cannot be imported"):
        check_envelope(tmp_path / "file")


def test_envelope_file_must_be_regular_and_within_the_size_limit(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArchive, match="larger than 100 bytes"):
        check_envelope(file, largest=100)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArchive, match="not a regular file"):
        check_envelope(tmp_path / "pipe")
    with pytest.raises(NotFound, match="cannot read"):
        check_envelope(tmp_path / "nothing")


# --- two turns ------------------------------------------------------------------------------------------


def test_diff_lists_items_that_entered_left_and_moved(chat: Chat, store: FileStore) -> None:
    chat.say("One.", answer=lambda ask: Answer("Yes." + trailer(ask, [item("w-1"), item("w-2")])))
    chat.say("Two.", answer=lambda ask: Answer("Yes." + trailer(ask, [item("w-3")], dropped=["w-1"])))
    chat.say("Three.")
    diff = diff_of("s", 2, 3, store=store)
    assert {(each.kind, each.part) for each in diff.entered} == {
        ("session_history", "4"),
        ("user_message", "5"),
        ("working_memory", "w-3"),
    }
    assert [(each.kind, each.part) for each in diff.left] == [("working_memory", "w-1")]
    assert [(each.before.kind, each.after.kind, each.after.part) for each in diff.moved] == [
        ("user_message", "session_history", "3")
    ]
    assert {("drop", "w-1", 2), ("add", "w-3", 2)} <= {(each.kind, each.id, each.turn) for each in diff.operations}
    assert {each.turn for each in diff.operations} == {2}
    same = diff_of("s", 2, 2, store=store)
    assert (same.entered, same.left, same.moved) == ((), (), ())


def test_a_diff_says_why_messages_left(store: FileStore) -> None:
    say(store, *[("user", f"message {number}") for number in range(1, 6)])
    recent, reason = {"kind": "recent_messages", "source": "messages.jsonl"}, "older than the budget reaches"
    begin(store, *FIXED, entry(**recent, refs=["1-3"]), conversation="1-4")
    left = entry(**recent, included=False, refs=["1-2"], reason=reason)
    begin(store, *FIXED, entry(**recent, refs=["3-4"]), left, run="t2", conversation="3-5")
    diff = diff_of("s", 1, 2, store=store)
    assert [(each.part, each.included, each.reason) for each in diff.left] == [
        ("1", False, reason),
        ("2", False, reason),
    ]


@pytest.fixture
def three_turns(chat: Chat, store: FileStore) -> FileStore:
    """Memories that come and go, a file's worth of history, and a summary of none of it."""
    chat.say("One.", answer=lambda ask: Answer("Yes." + trailer(ask, [item("w-1"), item("w-2")])))
    two = [item("w-3"), item("w-4")]
    chat.say("Two.", answer=lambda ask: Answer("Yes." + trailer(ask, two, dropped=["w-1"])))
    chat.say("Three.", answer=lambda ask: Answer("Yes." + trailer(ask, two[1:], dropped=["w-2", "w-3"])))
    return store


def imported(store: FileStore, tmp_path: Path, **which: Any) -> MemoryStore:
    """A store that has what another one tells of its session, and nothing else."""
    path, other = tmp_path / "evidence.json", MemoryStore()
    path.write_bytes(envelope_of("s", store=store, **which).as_bytes())
    import_envelope(path, store=other)
    return other


@pytest.mark.parametrize("turns", [(1, 2), (2, 3), (1, 3), (3, 1), (2, 2)])
def test_diff_of_imported_evidence_equals_the_original_diff(
    three_turns: FileStore, tmp_path: Path, turns: tuple[int, int]
) -> None:
    other = imported(three_turns, tmp_path, target="model")
    mine, theirs = diff_of("s", *turns, store=three_turns), diff_of("s", *turns, store=other)
    assert (theirs.before, theirs.after) == turns
    assert (theirs.entered, theirs.left, theirs.moved) == (mine.entered, mine.left, mine.moved)
    counted = Counter((each.turn, each.round, each.kind) for each in mine.operations if each.event != "evolution")
    told = {(each.turn, each.round, each.kind): int(each.reason.split()[0]) for each in theirs.operations}
    assert told == counted
    assert {(each.id, each.tier) for each in theirs.operations} <= {("", "")}
    assert mine.gaps == ()
    assert [gap.partition(":")[0] for gap in theirs.gaps] == ["which memory items changed or faded"]


def test_diff_reports_evidence_without_memory_item_names(three_turns: FileStore, tmp_path: Path) -> None:
    """Two of them that are called the same are not said to be the same."""
    mine, theirs = (diff_of("s", 2, 3, store=each) for each in (three_turns, imported(three_turns, tmp_path)))
    memories = {"working_memory", "durable_memory"}
    assert memories & {each.kind for each in (*mine.entered, *mine.left)}
    assert [each for each in theirs.entered if each.kind in memories] == []
    assert [(each.kind, each.uri, each.part) for each in theirs.entered] == [
        (each.kind, each.uri, each.part) for each in mine.entered if each.kind not in memories
    ]
    assert "2 in turn 2 and 3 in turn 3: evidence_export may not see their names" in theirs.gaps[1]


def test_a_turn_is_named_by_its_number_or_id_in_evidence_too(three_turns: FileStore, tmp_path: Path) -> None:
    other = imported(three_turns, tmp_path, target="model", turn=2)
    (turn,) = (each for each in check_envelope(tmp_path / "evidence.json").envelopes if each.scope == "turn")
    assert diff_of("s", turn.turn_id, "2", store=other).entered == ()
    with pytest.raises(NotFound, match="has no turn 3; it has 2"):
        diff_of("s", 2, 3, store=other)


def test_a_reason_in_evidence_covers_its_range(store: FileStore, tmp_path: Path) -> None:
    say(store, *[("user", f"message {number}") for number in range(1, 8)])
    recent, reason = {"kind": "recent_messages", "source": "messages.jsonl"}, "older than the budget reaches"
    begin(store, *FIXED, entry(**recent, refs=["1-5"]), conversation="1-6")
    left = entry(**recent, included=False, refs=["1-2,4"], reason=reason)
    begin(store, *FIXED, entry(**recent, refs=["5-6"]), left, run="t2", conversation="5-7")
    other = imported(store, tmp_path, target="model")
    for diff in (diff_of("s", 1, 2, store=store), diff_of("s", 1, 2, store=other)):
        assert [(each.part, each.reason) for each in diff.left] == [
            ("1", reason),
            ("2", reason),
            ("3", ""),
            ("4", reason),
        ]


@pytest.mark.parametrize(
    "change",
    [
        lambda document: [each["metadata"].update(number="x") for each in document["envelopes"] if "metadata" in each],
        lambda document: [each["metadata"].update(number=1) for each in document["envelopes"] if "metadata" in each],
        lambda document: [
            each["selector"].update(value=value)
            for each, value in zip(
                [each for each in document["source_refs"] if "selector" in each],
                ("9" * 5000, "1-999999999999999", "-", "x-y"),
                strict=False,
            )
        ],
        lambda document: [
            each["data"].update(count=10**300)
            for each in document["events"]
            if "memory_operation" in each.get("data", ())
        ],
        lambda document: [each.update(task_id="round-" + "9" * 5000) for each in document["events"]],
    ],
)
def test_evidence_from_other_producers_can_be_compared(file: Path, home: Path, change: Any) -> None:
    document, other = json.loads(file.read_bytes()), FileStore(home.parent / "other")
    change(document)
    file.write_bytes(resealed(document))
    import_envelope(file, store=other)
    diff = diff_of("s", 1, 2, store=other)
    assert (diff.before, diff.after) == (1, 2)
    assert any(each.kind == "user_message" for each in diff.entered)
    shown = command("diff", "s", "1", "2", "--store", str(other.root))
    assert shown.exit_code == 0, shown.output
    assert "not in the evidence" in shown.output


def test_unchecked_evidence_from_an_archive_is_rejected(file: Path) -> None:
    document, other = json.loads(file.read_bytes()), MemoryStore()
    del document["items"][1:]
    blob = stored(resealed(document), other.open(KEY).files, "bytes", lasting=False)
    append(other, "events", {"type": "evidence", "target": "model", "ctx": {"blobs": [blob]}})
    with pytest.raises(StoreCorrupt, match="lacks"):
        diff_of("s", 1, 2, store=other)


# --- the commands ---------------------------------------------------------------------------------------


def test_export_and_import_on_the_command_line(file: Path, store: FileStore, tmp_path: Path) -> None:
    where = ("--store", str(store.root))
    shown = command("export", "s", "--envelope", "--turn", "2", "--target", "model", *where)
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.output)["target"] == "model"
    target = tmp_path / "out.json"
    assert command("export", "s", "--envelope", "-o", str(target), *where).exit_code == 0
    assert target.stat().st_mode & 0o077 == 0
    again = command("export", "s", "--envelope", "-o", str(target), *where)
    assert (again.exit_code, "already exists" in again.output) == (1, True)
    assert command("export", "s", "--envelope", "-o", str(target), "--force", *where).exit_code == 0
    brought = command("import", str(target), "--session", "copy", *where)
    assert brought.exit_code == 0, brought.output
    assert "neither messages nor memory" in brought.output
    assert command("export", "copy", "--envelope", *where).output == target.read_text()


def test_envelope_options_need_the_envelope_option(store: FileStore) -> None:
    for arguments in (
        ("export", "s", "--turn", "1", "-o", "x"),
        ("export", "s", "--target", "ui", "-o", "x"),
        ("export", "s"),
    ):
        assert command(*arguments).exit_code == 2


def test_schema_command_prints_schemas() -> None:
    every = json.loads(command("schema").output)
    assert len(every) == 15
    assert json.loads(command("schema", "context_item").output) == every["context_item"]
    assert command("schema", "nonsense").exit_code == 1


def test_diff_command_prints_the_diff(file: Path, store: FileStore) -> None:
    shown = command("diff", "s", "1", "2", "--store", str(store.root))
    assert shown.exit_code == 0, shown.output
    assert "entered" in shown.output
    assert "left: nothing" in shown.output
    told = json.loads(command("diff", "s", "1", "2", "--json", "--store", str(store.root)).output)
    assert (told["before"], told["after"]) == (1, 2)


def test_diff_output_has_no_terminal_control_characters(store: FileStore) -> None:
    evil = "\x1b[2J\x9b31m\u202e"
    append(store, "messages", {"role": "user", "content": evil})
    facts = entry("facts", "context/facts.jsonl", refs=[f"f{evil}"], reason=evil)
    begin(store, *FIXED, facts, conversation="1", memory={"core": [{"id": f"f{evil}", "content": evil}]})
    begin(store, *FIXED, run="t2", conversation="1")
    for arguments in (
        ("diff", "s", "1", "2"),
        ("diff", "s", "1", "2", "--json"),
        ("export", "s", "--envelope", "--target", "model"),
    ):
        shown = command(*arguments, "--store", str(store.root))
        assert shown.exit_code == 0, shown.output
        assert not set(shown.output) & set("\x1b\x9b\u202e\x7f")
