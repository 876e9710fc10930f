"""Context documents: versions, conflicts, caps, no summaries; and the two state machines of an agent that keeps one."""

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.documents.document import LONGEST, PLACEHOLDER, TRIMMED, grow, is_placeholder
from ctxwrap.documents.sentences import RawMessage
from ctxwrap.errors import ContextConflict, InvalidInput, NotFound
from ctxwrap.service.memories import Memories
from ctxwrap.service.models import Entry
from ctxwrap.session.documents import NEWEST
from ctxwrap.stores.memory import MemoryStore


@pytest.fixture(params=["files", "memory"])
def service(request: pytest.FixtureRequest, home: Path) -> Memories:
    return Memories(home if request.param == "files" else "memory:")


@pytest.fixture
def memory(service: Memories) -> str:
    return service.create_memory("Talk").memoryId


def test_new_memory_has_the_placeholder_context(service: Memories, memory: str) -> None:
    known = service.get_context(memory)
    assert (known.content, known.version, known.by) == (PLACEHOLDER, 0, "")
    assert is_placeholder(known.content)


def test_each_put_context_creates_a_version(service: Memories, memory: str) -> None:
    for number in range(1, 4):
        assert service.put_context(memory, f"# Facts\n- Fact {number}.\n").version == number
    assert service.get_context(memory).content == "# Facts\n- Fact 3.\n"
    assert service.get_context(memory).by == "agent"
    assert [service.get_context(memory, number).content for number in (1, 2)] == [
        "# Facts\n- Fact 1.\n",
        "# Facts\n- Fact 2.\n",
    ]
    assert service.get_context(memory, 0).content == PLACEHOLDER
    assert service.get_memory(memory).stats.contextVersions == 3
    with pytest.raises(NotFound, match="the newest one is 3"):
        service.get_context(memory, 4)


def test_old_context_versions_can_be_read_by_number(home: Path) -> None:
    service = Memories(home)
    memory = service.create_memory("Talk").memoryId
    for number in range(1, 3 * NEWEST):
        service.put_context(memory, f"Fact {number}.")
        service.add_entry(memory, "Between them.") if number % 7 == 0 else None
    for number in (1, 2, NEWEST, 2 * NEWEST - 1, 2 * NEWEST, 3 * NEWEST - 1):
        assert Memories(home).get_context(memory, number).content == f"Fact {number}."


def test_stale_writer_gets_the_current_version(service: Memories, memory: str) -> None:
    service.put_context(memory, "One.", expected_version=0)
    with pytest.raises(ContextConflict, match="now at version 1, not 0") as conflict:
        service.put_context(memory, "Two.", expected_version=0)
    assert conflict.value.version == 1
    assert service.get_context(memory).content == "One."
    assert service.put_context(memory, "Two.", expected_version=1).version == 2


def test_one_of_many_concurrent_writers_wins_each_version(home: Path) -> None:
    memory = Memories(home).create_memory("Talk").memoryId
    won: list[int] = []
    stale: list[bool] = []

    def write(who: int) -> None:
        service = Memories(home)
        for _ in range(10):
            while True:
                known = service.get_context(memory)
                lines = "" if known.version == 0 else known.content
                try:
                    won.append(service.put_context(memory, f"{lines}- {who}\n", known.version).version)
                    break
                except ContextConflict as conflict:
                    stale.append(conflict.version > known.version)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(won) == list(range(1, 41))
    assert all(stale)
    assert sorted(Memories(home).get_context(memory).content.split()) == sorted(["-"] * 40 + list("0123") * 10)


def test_too_long_context_is_trimmed_and_reported(service: Memories, memory: str) -> None:
    lines = "".join(f"- Note {number} about something or other.\n" for number in range(300))
    stored = service.put_context(memory, f"# Decisions\n- Use PostgreSQL.\n# Notes\n{lines}")
    known = service.get_context(memory).content
    assert len(known) <= LONGEST
    assert len(known) >= TRIMMED - 200
    assert "PostgreSQL" in known
    gone = 300 - known.count("- Note ")
    assert stored.note == f"trimmed from 11028 to {len(known)} characters; removed lines: {gone} of Notes"
    assert service.put_context(memory, "Short.").note == ""


def test_a_diagram_has_ten_nodes_at_most(service: Memories, memory: str) -> None:
    def diagram(nodes: int) -> str:
        return f"# Diagram\n```mermaid\nflowchart LR\n{' --> '.join(f'n{at}' for at in range(nodes))}\n```\n"

    assert service.put_context(memory, diagram(10)).version == 1
    with pytest.raises(InvalidInput, match="of 11 nodes; the limit is 10"):
        service.put_context(memory, diagram(11))
    assert service.get_context(memory).version == 1


@pytest.mark.parametrize(
    "content",
    ["", " \n", None, 7, "a\x00b", "bell \a", "\x9b", "half \ud800", "\ufffe", "\ufdd0", "\U0001ffff", "x" * 70_000],
)
def test_invalid_context_content_is_rejected(service: Memories, memory: str, content: Any) -> None:
    with pytest.raises(InvalidInput, match="content"):
        service.put_context(memory, content)
    assert service.get_context(memory).version == 0


@given(st.text(max_size=6000))
def test_any_context_text_is_rejected_or_kept(content: str) -> None:
    service = Memories(MemoryStore())
    memory = service.create_memory("Talk").memoryId
    try:
        service.put_context(memory, content)
    except InvalidInput:
        assert service.get_context(memory).version == 0
    else:
        assert service.get_context(memory).content == content or len(content) > LONGEST


@pytest.mark.parametrize("version", [-1, True, "1", 1.5])
def test_invalid_context_version_is_rejected(service: Memories, memory: str, version: Any) -> None:
    with pytest.raises(InvalidInput, match="a version is"):
        service.get_context(memory, version)
    with pytest.raises(InvalidInput, match="a version is"):
        service.put_context(memory, "One.", version)


def test_context_records_its_writer(service: Memories, memory: str) -> None:
    service.put_context(memory, "One.", by="operator")
    assert service.get_context(memory).by == "operator"
    with pytest.raises(InvalidInput, match="by must be"):
        service.put_context(memory, "One.", by="extract")


class TestNoFeedback:
    SUMMARY = "Ada told Ben that the launch of the telescope moved to the seventeenth of August."

    def test_context_that_repeats_a_summary_is_rejected(self, service: Memories, memory: str) -> None:
        service.add_entry(memory, "hey ben, telescope launch is 17 aug now", self.SUMMARY)
        for content in (self.SUMMARY, f"# Facts\n- {self.SUMMARY.upper()}\n", f"Before. {self.SUMMARY} After."):
            with pytest.raises(InvalidInput, match="repeats the summary of entry 1"):
                service.put_context(memory, content)
        assert service.get_context(memory).version == 0

    def test_context_that_repeats_one_sentence_of_a_summary_is_rejected(self, service: Memories, memory: str) -> None:
        service.add_entry(memory, "both of it", f"{self.SUMMARY} Ben was asked to tell everybody in the office.")
        with pytest.raises(InvalidInput, match="summary of entry 1"):
            service.put_context(memory, f"- {self.SUMMARY.rstrip('.')}, it seems")

    def test_context_that_repeats_a_summary_made_by_rules_is_rejected(self, service: Memories, memory: str) -> None:
        stored = service.add_entry(
            memory, "Hi Sam, our Q3 launch date moved to 17 Aug 2025. Please update the tracker."
        )
        with pytest.raises(InvalidInput, match="summary of entry"):
            service.put_context(memory, f"- {service.get_entry(memory, stored.id).summary}")

    def test_context_may_repeat_the_words_of_a_raw_entry(self, service: Memories, memory: str) -> None:
        service.add_entry(memory, f"Listen: {self.SUMMARY}", self.SUMMARY)
        assert service.put_context(memory, f"- {self.SUMMARY}").version == 1

    def test_short_texts_do_not_count_as_a_repeated_summary(self, service: Memories, memory: str) -> None:
        service.add_entry(memory, "i like tea", "Ada liked tea.")
        assert service.put_context(memory, "- Ada liked tea.").version == 1

    def test_context_that_repeats_an_old_summary_is_rejected(self, service: Memories, memory: str) -> None:
        service.add_entry(memory, "telescope launch is 17 aug now, ben", self.SUMMARY)
        for number in range(260):
            service.add_entry(memory, f"Something else, number {number}.", f"Number {number} was said.")
        with pytest.raises(InvalidInput, match="summary of entry 1"):
            service.put_context(memory, f"# Facts\n- Fine.\n- {self.SUMMARY}\n")

    def test_a_document_grows_from_raw_messages_only(self, service: Memories, memory: str) -> None:
        service.add_entry(memory, "We decided to use PostgreSQL 16.", self.SUMMARY)
        entry = service.list_entries(memory).entries[0]
        document = grow(PLACEHOLDER, [raw(entry)])
        assert "PostgreSQL 16" in document
        assert service.put_context(memory, document).version == 1


class TestAgents:
    """What the specification has an agent do, step by step."""

    def test_example_a_1_bootstraps_a_new_memory(self, service: Memories, memory: str) -> None:
        assert is_placeholder(service.get_context(memory).content)
        text = "I am a helpful customer-support agent. Ready to greet customer."
        service.put_context(memory, text, 0)
        assert service.get_context(memory).content == text

    def test_example_a_2_updates_the_context_from_a_raw_entry(self, service: Memories, memory: str) -> None:
        service.put_context(memory, "# Timeline\n• 17 Aug 2025 – tentative Q3 launch\n")
        raw_entry = "Hi Sam, our Q3 launch date moved to 17 Aug 2025. Please update the tracker."
        stored = service.add_entry(memory, raw_entry)
        entry = service.get_entry(memory, stored.id)
        assert entry.summary.startswith("User ")
        assert "17 Aug 2025" in entry.summary
        known = service.get_context(memory)
        service.put_context(memory, grow(known.content, [raw(entry)]), known.version)
        assert "**confirmed** Q3 launch" in service.get_context(memory).content

    def test_entry_persistence(self, service: Memories, memory: str) -> None:
        for text, is_stored in (("My name is Ada.", True), ("<SESSION_START>", False), ("I work in Berlin.", True)):
            if is_stored:
                service.add_entry(memory, text, request_id=text)
        assert [each.rawEntry for each in service.list_entries(memory).entries] == [
            "I work in Berlin.",
            "My name is Ada.",
        ]

    def test_session_lifecycle(self, service: Memories, memory: str) -> None:
        said = [f"Person{number} has room {number}." for number in range(1, 15)]
        first = Agent(service, memory)
        for text in said:
            first.hear(text)
        first.leave()
        assert service.get_memory(memory).stats.contextVersions == 1 + 2 + 1, "the start, every six, the end"
        second = Agent(service, memory)
        assert second.document == service.get_context(memory).content
        assert all(f"Person{number} " in second.document for number in range(1, 15))

    def test_facts_that_the_document_lacks_are_merged_at_the_start(self, service: Memories, memory: str) -> None:
        first = Agent(service, memory)
        first.hear("Ada has room 12.")  # and dies without a word
        assert "Ada" not in service.get_context(memory).content
        assert "Ada" in Agent(service, memory).document


class Agent:
    """An agent that keeps a memory as it is told to."""

    def __init__(self, service: Memories, memory: str) -> None:
        self.service, self.memory = service, memory
        known = service.get_context(memory)
        self.version = known.version
        self.document = known.content
        if is_placeholder(known.content):
            self.document = "# Description\n"
            self.put()
        entries = service.list_entries(memory, 10).entries
        self.document = grow(self.document, [raw(entry) for entry in reversed(entries)])
        self.new: list[Entry] = []

    def hear(self, text: str) -> None:
        stored = self.service.add_entry(self.memory, text)
        self.new.append(self.service.get_entry(self.memory, stored.id))
        if len(self.new) == 6:
            self.flush()

    def flush(self) -> None:
        self.document, self.new = grow(self.document, [raw(entry) for entry in self.new]), []
        assert self.service.await_consistency(self.memory).status == "consistent"
        self.put()

    def put(self) -> None:
        self.version = self.service.put_context(self.memory, self.document, self.version).version

    def leave(self) -> None:
        self.flush()


def raw(entry: Entry) -> RawMessage:
    return RawMessage(int(entry.entryId), entry.role, entry.rawEntry, entry.creationTime)


def test_purge_removes_only_the_matching_lines_of_an_operators_document(home: Path) -> None:
    service = Memories(home)
    memory = service.create_memory("Talk").memoryId
    service.add_entry(memory, "The vault opens with marigold-77 at night.")
    service.put_context(memory, "- The vault opens with marigold-77 at night.", by="operator")
    ctxwrap.purge(memory, message=1, store=home)
    assert service.get_context(memory).version == 0, "nothing was left of it"
    assert service.put_context(memory, "New.", 0).version == 2
    with pytest.raises(NotFound):
        service.get_context(memory, 1)
