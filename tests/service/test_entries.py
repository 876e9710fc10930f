"""Entries: one message with one summary, stored once, paged both ways without a gap, whoever else writes."""

import multiprocessing
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.documents.summary import MAX_SUMMARY
from ctxwrap.errors import Conflict, InvalidInput, NotFound, QuotaExceeded
from ctxwrap.service.memories import Memories
from ctxwrap.service.models import Entry
from ctxwrap.session.lookup import key_for, open_existing
from ctxwrap.session.verify import verify
from ctxwrap.settings import Quotas
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from tests.support import messages

NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)


@pytest.fixture(params=["files", "memory"])
def service(request: pytest.FixtureRequest, home: Path) -> Memories:
    return Memories(home if request.param == "files" else "memory:")


@pytest.fixture
def memory(service: Memories) -> str:
    return service.create_memory("Talk").memoryId


def filled(count: int) -> tuple[Memories, str]:
    """A memory with so many entries, all of one time."""
    service = Memories(MemoryStore(), clock=lambda: NOW)
    memory = service.create_memory("Many").memoryId
    for number in range(count):
        service.add_entry(memory, f"Entry {number}.", summary=f"Number {number} was said.")
    return service, memory


@pytest.fixture(scope="module")
def thousand() -> tuple[Memories, str]:
    return filled(1000)


def back(service: Memories, memory: str, limit: int, before: str | None = None) -> Iterator[Entry]:
    while True:
        page = service.list_entries(memory, limit, before=before)
        assert page.count == len(page.entries) <= page.applied_limit == limit
        yield from page.entries
        if not page.next_before:
            return
        before = page.next_before


def forth(service: Memories, memory: str, limit: int, after: str) -> Iterator[Entry]:
    while (page := service.list_entries(memory, limit, after=after)).entries:
        yield from reversed(page.entries)
        after = page.next_after
    assert page.next_after, "newer ones may come"


class TestPaging:
    ALL = tuple(str(number) for number in range(1, 1001))

    @given(limit=st.integers(1, 50))
    def test_entries_with_equal_times_are_paged_backwards(self, thousand: tuple[Memories, str], limit: int) -> None:
        assert tuple(each.entryId for each in back(*thousand, limit)) == self.ALL[::-1]

    @given(limit=st.integers(1, 50))
    def test_entries_with_equal_times_are_paged_forwards(self, thousand: tuple[Memories, str], limit: int) -> None:
        time = thousand[0].get_entry(thousand[1], "1").creationTime
        assert tuple(each.entryId for each in forth(*thousand, limit, time)) == self.ALL

    @given(limit=st.integers(1, 50), start=st.integers(1, 1000))
    def test_pages_start_at_any_cursor_in_both_directions(
        self, thousand: tuple[Memories, str], limit: int, start: int
    ) -> None:
        service, memory = thousand
        page = service.list_entries(memory, limit, before=_cursor(service, memory, start))
        assert [each.entryId for each in page.entries] == [*self.ALL[max(0, start - 1 - limit) : start - 1]][::-1]
        page = service.list_entries(memory, limit, after=_cursor(service, memory, start))
        assert [each.entryId for each in page.entries] == [*self.ALL[start : start + limit]][::-1], "the first after it"

    def test_time_filter_includes_all_entries_of_that_time(self, thousand: tuple[Memories, str]) -> None:
        service, memory = thousand
        time = service.get_entry(memory, "1").creationTime
        assert len(list(back(service, memory, 50, before=time))) == 1000
        assert service.list_entries(memory, after=_shifted(time, 1)).count == 0
        assert service.list_entries(memory, before=_shifted(time, -1)).count == 0
        assert service.list_entries(memory, before=_shifted(time, -1)).next_before == ""

    @given(times=st.lists(st.integers(0, 5), min_size=1, max_size=40), at=st.integers(-1, 6))
    def test_time_filters_are_inclusive(self, times: list[int], at: int) -> None:
        moments = iter([NOW, *(NOW + timedelta(seconds=each) for each in sorted(times))])
        service = Memories(MemoryStore(), clock=lambda: next(moments))
        memory = service.create_memory("Times").memoryId
        for each in sorted(times):
            service.add_entry(memory, f"At {each}.")
        cursor = (NOW + timedelta(seconds=at)).isoformat()
        assert len(list(back(service, memory, 7, before=cursor))) == sum(each <= at for each in times)
        assert len(list(forth(service, memory, 7, cursor))) == sum(each >= at for each in times)

    def test_page_reads_only_the_entries_it_returns(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        service = Memories(home)
        memory = service.create_memory("Long").memoryId
        for number in range(300):
            service.add_entry(memory, f"Entry {number}.")
        service.list_entries(memory)
        picked: list[int] = []
        log: Any = type(open_existing(key_for(memory), home).log)
        pick = log.pick
        monkeypatch.setattr(
            log,
            "pick",
            lambda self, stream, numbers: picked.extend(numbers := list(numbers)) or pick(self, stream, numbers),
        )
        monkeypatch.setattr(log, "between", None)
        service.list_entries(memory, 10)
        assert len(picked) <= 40

    def test_limit_may_be_a_numeric_string(self, service: Memories, memory: str) -> None:
        assert service.list_entries(memory, "7").applied_limit == 7
        assert service.list_entries(memory).applied_limit == 25

    @pytest.mark.parametrize("limit", [0, 51, -1, "many", "0", 2.5, True, None])
    def test_invalid_limits_are_rejected(self, service: Memories, memory: str, limit: Any) -> None:
        with pytest.raises(InvalidInput, match="from 1 to 50"):
            service.list_entries(memory, limit)

    def test_before_and_after_cannot_be_combined(self, service: Memories, memory: str) -> None:
        with pytest.raises(InvalidInput, match="not both"):
            service.list_entries(memory, before="2026-01-01T00:00:00Z", after="2026-01-01T00:00:00Z")

    @pytest.mark.parametrize("cursor", ["nonsense", "12", "2026-13-45T00:00:00Z", "ZW50cnk6LTU", "é", "=" * 9, "2026"])
    def test_invalid_cursor_error_explains_the_format(self, service: Memories, memory: str, cursor: str) -> None:
        for way in ("before", "after"):
            with pytest.raises(InvalidInput, match="is not a cursor: pass next_before or next_after"):
                service.list_entries(memory, **{way: cursor})

    def test_empty_memory_returns_a_cursor_to_follow(self, service: Memories, memory: str) -> None:
        page = service.list_entries(memory)
        assert (page.count, page.next_before) == (0, "")
        service.add_entry(memory, "First.")
        assert service.list_entries(memory, after=page.next_after).count == 1


def _cursor(service: Memories, memory: str, number: int) -> str:
    """What `next_after` says of a page that ends with that entry."""
    from ctxwrap.service.entries import cursor_for

    return cursor_for(number)


def _shifted(time: str, seconds: int) -> str:
    return (datetime.fromisoformat(time) + timedelta(seconds=seconds)).isoformat()


class TestAdding:
    def test_example_entry_is_stored_raw_with_a_short_summary(self, service: Memories, memory: str) -> None:
        raw = "Hi Sam, our Q3 launch date moved to 17 Aug 2025. Please update the tracker."
        stored = service.add_entry(memory, raw)
        entry = service.get_entry(memory, stored.id)
        assert entry.rawEntry == raw
        assert len(entry.summary) <= MAX_SUMMARY
        assert all(word in entry.summary for word in ("Q3 launch date", "17 Aug 2025", "Sam", "tracker", "asked"))

    def test_summary_is_kept_or_shortened_to_the_limit(self, service: Memories, memory: str) -> None:
        short = service.add_entry(memory, "Raw.", "Ada said something raw.")
        assert service.get_entry(memory, short.id).summary == "Ada said something raw."
        long = service.add_entry(
            memory, "Raw.", "Hello there. " * 50 + "Ada owes Ben 4711 euros since 2026-01-02. " * 9
        )
        summary = service.get_entry(memory, long.id).summary
        assert len(summary) <= MAX_SUMMARY
        assert summary.endswith("…")
        assert "4711" in summary

    def test_entry_keeps_its_role_and_tags(self, service: Memories, memory: str) -> None:
        ids = [
            service.add_entry(memory, "a").id,
            service.add_entry(memory, "b", role="assistant").id,
            service.add_entry(memory, "c", tags={"role": "assistant", "urgent": True, "n": 3}).id,
        ]
        entries = [service.get_entry(memory, id) for id in ids]
        assert [each.role for each in entries] == ["user", "assistant", "assistant"]
        assert entries[2].tags == {"role": "assistant", "urgent": "true", "n": "3"}

    def test_repeated_request_stores_one_entry(self, service: Memories, memory: str) -> None:
        first = service.add_entry(memory, "Once.", request_id="r-1")
        assert service.add_entry(memory, "Once.", request_id="r-1") == first
        assert service.list_entries(memory).count == 1
        with pytest.raises(Conflict, match="entry 1 with other content"):
            service.add_entry(memory, "Twice.", request_id="r-1")
        with pytest.raises(Conflict):
            service.add_entry(memory, "Once.", "Another summary.", request_id="r-1")
        assert service.add_entry(memory, "Once.").id == "2", "without an id it is another entry"

    def test_repeated_request_is_recognised_by_another_process(self, home: Path) -> None:
        memory = Memories(home).create_memory("Talk").memoryId
        for _ in range(3):
            assert Memories(home).add_entry(memory, "Once.", request_id="r-1").id == "1"
        for number in range(140):  # beyond a checkpoint
            Memories(home).add_entry(memory, f"More {number}.", request_id=f"m-{number}")
        assert Memories(home).add_entry(memory, "Once.", request_id="r-1").id == "1"

    @pytest.mark.parametrize("raw", ["", "  \n", None, 5])
    def test_empty_entry_is_rejected(self, service: Memories, memory: str, raw: Any) -> None:
        with pytest.raises(InvalidInput, match="raw_entry"):
            service.add_entry(memory, raw)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"role": "system"},
            {"role": "sam"},
            {"role": "tool"},
            {"tags": {"role": "root"}},
            {"tags": {str(number): "" for number in range(40)}},
            {"tags": {"x": "y" * 300}},
            {"tags": ["x"]},
            {"summary": "bell \a"},
            {"request_id": "x" * 300},
            {"request_id": 7},
        ],
    )
    def test_entry_with_invalid_arguments_is_rejected(
        self, service: Memories, memory: str, wrong: dict[str, Any]
    ) -> None:
        with pytest.raises(InvalidInput):
            service.add_entry(memory, "Raw.", **wrong)
        assert service.list_entries(memory).count == 0

    @given(
        raw=st.text(min_size=1).filter(str.strip), summary=st.none() | st.text(st.characters(exclude_categories=["C"]))
    )
    def test_entry_text_is_stored_verbatim(self, raw: str, summary: str | None) -> None:
        service, memory = filled(0)
        entry = service.get_entry(memory, service.add_entry(memory, raw, summary).id)
        assert entry.rawEntry == raw.encode("utf-8", "replace").decode()
        assert 0 < len(entry.summary) <= MAX_SUMMARY

    def test_large_entries_are_returned_whole(self, service: Memories, memory: str) -> None:
        raw = "A long report. " * 5000
        entry = service.get_entry(memory, service.add_entry(memory, raw).id)
        assert entry.rawEntry == raw
        assert service.list_entries(memory).entries[0].rawEntry == raw

    def test_quotas_are_checked_before_writing(self, home: Path) -> None:
        service = Memories(home, quotas=Quotas(memories=1, entries=3, characters=20, entry_characters=15))
        memory = service.create_memory("Talk").memoryId
        with pytest.raises(QuotaExceeded, match="1 memories"):
            service.create_memory("Another")
        with pytest.raises(QuotaExceeded, match="the limit is 15"):
            service.add_entry(memory, "x" * 16)
        service.add_entry(memory, "x" * 15)
        with pytest.raises(QuotaExceeded, match="15 characters"):
            service.add_entry(memory, "x" * 6)
        service.add_entry(memory, "x")
        service.add_entry(memory, "x")
        with pytest.raises(QuotaExceeded, match="3 entries"):
            service.add_entry(memory, "x")
        assert service.get_memory(memory).stats.entries == 3
        assert len(messages(home, memory)) == 3
        assert service.get_user().quotas["entries"] == 3

    def test_secrets_are_redacted_everywhere(self, home: Path) -> None:
        settings = ctxwrap.Settings(redaction=ctxwrap.Redaction())
        service = Memories(home, settings=settings)
        memory = service.create_memory("Talk").memoryId
        secret = "sk-proj-" + "a1B2c3D4" * 6
        service.add_entry(memory, f"The key is {secret}.", f"User gave {secret}.", {"key": secret})
        service.put_context(memory, f"# Facts\n- Key {secret}\n")
        assert not [path for path in home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


class TestBehavingLikeOthers:
    def test_wrapped_chat_continues_from_entries(self, provider: Provider, home: Path) -> None:
        service = Memories(home)
        service.create_memory("Talk", memory_id="s")
        service.add_entry("s", "My name is Ada.")
        service.add_entry("s", "Hello Ada.", role="assistant")
        chat = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=provider.openai_url), session="s", store=home)
        reply = chat.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Who am I?"}])
        assert ctxwrap.turn_of(reply).round == 2, "the entries were the first round"
        assert "My name is Ada." in str(provider.seen[-1].body)
        assert [each.rawEntry for each in service.list_entries("s").entries] == [
            "Hello, world.",
            "Who am I?",
            "Hello Ada.",
            "My name is Ada.",
        ]
        whole = [{"role": "user", "content": "My name is Ada."}, {"role": "assistant", "content": "Hello Ada."}]
        chat.chat.completions.create(
            model="gpt-4o", messages=[*whole, *_said("Who am I?", "Hello, world."), *_said("Ok.")]
        )
        assert service.list_entries("s").count == 6, "what is sent again is known"

    def test_a_chats_messages_are_entries_with_summaries(self, provider: Provider, home: Path) -> None:
        chat = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=provider.openai_url), session="s", store=home)
        said: Any = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "My name is Ada."}]
        chat.chat.completions.create(model="gpt-4o", messages=said)
        service = Memories(home)
        entries = service.list_entries("s").entries
        assert [each.role for each in entries] == ["assistant", "user"], "instructions are no entries"
        assert "Ada" in entries[1].summary
        assert service.list_entries("s").entries == entries, "the same every time"
        assert (service.get_memory("s").title, service.get_memory("s").stats.entries) == ("s", 2)

    def test_replaced_messages_are_not_listed_but_can_be_read(self, provider: Provider, home: Path) -> None:
        chat = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=provider.openai_url), session="s", store=home)
        for said in (_said("One."), [*_said("One.", "Hello, world."), *_said("Two.")]):
            chat.chat.completions.create(model="gpt-4o", messages=said)
        edited: Any = [*_said("One.", "Hello, world."), *_said("Another two.")]
        chat.chat.completions.create(model="gpt-4o", messages=edited)
        service = Memories(home)
        entries = service.list_entries("s").entries
        assert "Two." not in [each.rawEntry for each in entries]
        assert len(entries) == 4
        assert [each.entryId for each in back(service, "s", 1)] == [each.entryId for each in entries]
        assert service.get_entry("s", "3").rawEntry == "Two."

    def test_purge_removes_an_entry_and_its_summary(self, home: Path) -> None:
        service = Memories(home)
        memory = service.create_memory("Talk").memoryId
        service.add_entry(memory, "Lena has the spare key.")
        raw = "The door code is swordfish-4242."
        service.add_entry(
            memory, raw, "User said how the archive is opened: swordfish.", {"about": "swordfish"}, request_id="r"
        )
        service.add_entry(memory, "Fine.")
        service.put_context(memory, "# Facts\n- door code swordfish-4242\n- Lena has a spare key.\n")
        ctxwrap.purge(memory, message=2, store=home)
        assert not [path for path in home.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()]
        assert [each.entryId for each in service.list_entries(memory).entries] == ["3", "1"]
        with pytest.raises(NotFound):
            service.get_entry(memory, "2")
        assert "Lena" in service.get_context(memory).content
        assert service.get_memory(memory).stats.entries == 2
        assert (
            service.add_entry(
                memory, raw, "User said how the archive is opened: swordfish.", {"about": "swordfish"}, request_id="r"
            ).id
            == "2"
        )
        assert service.list_entries(memory).count == 2, "a request that is sent again does not bring it back"

    def test_memory_made_of_entries_is_a_complete_session(self, home: Path) -> None:
        service = Memories(home)
        memory = service.create_memory("Talk").memoryId
        for number in range(200):
            service.add_entry(
                memory, f"Fact {number} is about place {number * 7}.", role=("user", "assistant")[number % 2]
            )
        service.put_context(memory, "# Facts\n- One.\n")
        assert verify(memory, store=home).findings == ()
        session = open_existing(key_for(memory), home)
        assert len(session.state.derived.swap._closed) <= 2, "chunks leave as they do from chats"

    def test_archive_keeps_entries_summaries_and_context(self, home: Path, tmp_path: Path) -> None:
        service = Memories(home)
        memory = service.create_memory("Talk").memoryId
        service.add_entry(memory, "Raw.", "User said raw.")
        service.put_context(memory, "# Facts\n- One.\n")
        ctxwrap.export_session(memory, tmp_path / "a.zip", store=home)
        ctxwrap.import_session(tmp_path / "a.zip", store=tmp_path / "other")
        other = Memories(tmp_path / "other")
        assert other.get_entry(memory, "1").summary == "User said raw."
        assert other.get_context(memory) == service.get_context(memory)
        assert other.get_memory(memory).title == "Talk"


def _said(user: str, assistant: str = "") -> list[Any]:
    answer = [{"role": "assistant", "content": assistant}] if assistant else []
    return [{"role": "user", "content": user}, *answer]


def write(home: Path, memory: str, who: str, count: int) -> None:
    service = Memories(home)
    for number in range(count):
        service.add_entry(memory, f"{who} {number}", request_id=f"{who}-{number}")


def test_concurrent_writers_lose_no_entry(home: Path) -> None:
    service = Memories(home)
    memory = service.create_memory("Talk").memoryId
    fork = multiprocessing.get_context("fork")
    others = [fork.Process(target=write, args=(home, memory, f"process{each}", 40)) for each in range(2)]
    for process in others:
        process.start()

    def work(who: str) -> None:
        for number in range(40):
            service.add_entry(memory, f"{who} {number}")

    threads = [threading.Thread(target=work, args=(f"thread{each}",)) for each in range(3)]
    for thread in threads:
        thread.start()
    for each in (*threads, *others):
        each.join(60)
    assert [process.exitcode for process in others] == [0, 0]
    found = [each.rawEntry for each in back(service, memory, 50)]
    wanted = {
        f"{who} {number}" for who in ("process0", "process1", "thread0", "thread1", "thread2") for number in range(40)
    }
    assert len(found) == 200
    assert set(found) == wanted
    for who in ("process0", "thread2"):
        assert [each for each in found if each.startswith(who)] == [f"{who} {number}" for number in reversed(range(40))]
