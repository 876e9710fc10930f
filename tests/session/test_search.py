"""What the log holds about a question is found, and is what an index of the whole log finds, whatever happened."""

import json
import logging
import os
import shutil
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.errors import NotFound
from ctxwrap.export.archive import import_session
from ctxwrap.export.archive.writer import export_session
from ctxwrap.retrieval.features import is_specific
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.passages import passages
from ctxwrap.retrieval.ranking import Ranking
from ctxwrap.retrieval.selection import Lines, choose_passages
from ctxwrap.retrieval.vectors import Embedder, Vectors
from ctxwrap.session.branch import ROOT, Ranges
from ctxwrap.session.gc import collect_garbage
from ctxwrap.session.index_files import segments_of
from ctxwrap.session.purge import forget, purge, rewrite_events
from ctxwrap.session.search import Embedding, Retrieved, Retriever, tried
from ctxwrap.session.session import Session
from ctxwrap.session.verify import verify
from ctxwrap.stores.base import CACHE, Log, Store
from ctxwrap.stores.files.store import FileLog, FileStore
from ctxwrap.stores.log_format import as_record, message_in, number_in
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message, Record, Request, SessionKey
from tests.stores.faults import Seam, failing, installed, killing
from tests.support import PassingLog

KEY = SessionKey("t", "a", "s")
NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)
WORDS = ("apple", "bridge", "copper", "dragon", "engine", "forest", "garden", "harbour", "island", "jungle")


def count(text: str) -> int:
    return len(text.split())


class Talk:
    """Somebody who talks to a session through any of its instances, and sends all that is not taken back."""

    def __init__(self, store: Store, instances: int = 1, embedding: Embedding | None = None) -> None:
        self.store = store
        self.embedding = embedding
        self.sessions = [self.opened() for _ in range(instances)]
        self.state: list[Message] = []
        self.turns = 0

    def opened(self) -> Session:
        return Session(KEY, self.store.open(KEY), embedding=self.embedding)

    @property
    def place(self) -> dict[str, Any]:
        return {"store": self.store, "tenant": KEY.tenant, "agent": KEY.agent}

    def says(self, *said: Message, answer: str = "", at: int = 0, back: int = 0) -> None:
        """Go `back` some messages, and on from there."""
        del self.state[len(self.state) - back :]
        self.state += said
        self.turns += 1
        session, turn = self.sessions[at], f"t{self.turns}"
        with session.locked():
            opening = session.open_turn(Request(tuple(self.state)), NOW)
            parents = iter([opening.parent])
            records = [
                as_record(message, round=number, parent="" if message.role == "system" else next(parents, ""))
                for message, number in opening.new
            ]
            session.append(turn, records, [], NOW, part="o")
        if answer:
            parent = "" if any(message.role != "system" for message, _ in opening.new) else opening.parent
            with session.locked():
                session.append(turn, [as_record(Message("assistant", answer), parent=parent)], [], NOW, part="c")
            self.state.append(Message("assistant", answer))

    def finds(self, query: str, below: int = 0, budget: int = 2000, at: int = 0) -> Retrieved:
        session = self.sessions[at]
        with session.locked():
            return session.retrieve(query, below or session.next_message, budget, count)

    def numbers(self, query: str, **how: Any) -> set[int]:
        return {passage.number for passage in self.finds(query, **how).chosen}


def user(text: str) -> Message:
    return Message("user", text)


@contextmanager
def limits(*, segment: int = 8, unsaved: int = 3, at_once: int = 5000, window: int = 2000) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxwrap.retrieval.index.SIZE", segment)
        patch.setattr("ctxwrap.session.search._UNSAVED", unsaved)
        patch.setattr("ctxwrap.session.search._AT_ONCE", at_once)
        patch.setattr("ctxwrap.session.branch._WINDOW", window)
        yield


def on_branch(records: Sequence[Record]) -> set[int]:
    """The numbers of the messages that the newest one continues."""
    branch: list[tuple[str, int]] = []
    root = 0
    for record in (record for record in records if record["role"] != "system"):
        control = record.get("ctx") or {}
        parent = control.get("parent", "")
        if parent == ROOT:
            root = len(branch)
        elif parent:
            branch = branch[: root + [id for id, _ in branch[root:]].index(parent) + 1]
        branch.append((control.get("id") or str(len(branch) - root), number_in(record) or 0))
    return {number for _, number in branch}


def expected(
    log: Log, query: str, below: int, budget: int = 2000, embedder: Embedder | None = None
) -> list[tuple[int, int, float]]:
    """What an index of the whole log has to say, made at once."""
    records, _ = log.read("messages")
    index, texts, alive = Index(), dict[int, list[str]](), on_branch(records)
    vectors = Vectors(embedder) if embedder else None
    for record in records:
        number = number_in(record)
        if number and number < below and record["role"] != "system" and "purged" not in record["ctx"]:
            message = message_in(record)
            if message.text.strip():
                texts[number] = passages(message.text)
                time = int(datetime.fromisoformat(record["ctx"]["time"]).timestamp())
                index.add(number, message.text, role=message.role, group=record["ctx"]["time"][:10], time=time)
                if vectors:
                    vectors.add(number, message.text)
    if not len(index) or (vectors is None and not is_specific(index, query)):
        return []
    ranking = Ranking(index, query, vectors=vectors)
    ranking.leave_out(below, texts.keys() - alive)
    ranking.follow(lambda number, part: texts[number][part])
    lines = Lines(index, lambda number, part: texts[number][part], count)
    chosen, _ = choose_passages(lines, ranking, ranking.relevant(tried(budget)), budget)
    return [(each.number, each.part, each.score) for each in chosen]


def found(talk: Talk, query: str, at: int = 0) -> list[tuple[int, int, float]]:
    return [(each.number, each.part, each.score) for each in talk.finds(query, at=at).chosen]


def index_files(log: Log) -> list[str]:
    return [entry.name for entry in log.files.entries(CACHE)]


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FileStore(tmp_path) if request.param == "files" else MemoryStore()


def filled(store: Store, messages: int, embedding: Embedding | None = None) -> Talk:
    """A session with so many messages about this and that, the third of them about a lighthouse."""
    talk = Talk(store, embedding=embedding)
    texts = [f"We spoke of the {WORDS[at % 10]} and the {WORDS[at * 7 % 9]}, time {at}." for at in range(messages)]
    texts[2] = "My grandmother kept the lighthouse of Skerryvore."
    with talk.sessions[0].locked():
        roles = ("user", "assistant")
        records = [as_record(Message(roles[at % 2], text), round=at // 2 + 1) for at, text in enumerate(texts)]  # type: ignore[arg-type]
        talk.sessions[0].append("t0", records, [], NOW)
    return talk


def test_message_is_found_after_a_thousand_messages(store: Store) -> None:
    talk = filled(store, 1000)
    first = talk.finds("Who kept the lighthouse?").chosen[0]
    assert (first.number, first.part, first.speaker, first.heading) == (3, 0, "user", "2026-02-20")
    assert first.text == "My grandmother kept the lighthouse of Skerryvore."
    assert first.reasons
    assert index_files(store.open(KEY))
    again = Talk(store)
    assert again.finds("Who kept the lighthouse?") == talk.finds("Who kept the lighthouse?")


def test_index_of_long_messages_is_saved_after_fewer(store: Store) -> None:
    talk = Talk(store)
    for at in range(10):
        talk.says(user(f"lighthouse {at} " * 400))
    session = talk.sessions[0]
    retriever = Retriever(session.log)
    with session.locked():
        retriever.find("lighthouse", 11, 100, count, Ranges())
        retriever.save(1000)
        assert index_files(session.log) == []
        retriever.save(41)
        assert index_files(session.log) == [f"{CACHE}/0"]


def test_index_is_saved_at_a_query(store: Store) -> None:
    session = filled(store, 40).sessions[0]
    retriever = Retriever(session.log)
    with session.locked():
        first = retriever.find("lighthouse", 41, 100, count, Ranges())
        assert index_files(session.log) == [], "few new messages are not worth a file while somebody waits"
        retriever.save(41)
        assert index_files(session.log) == []
        retriever.save()
        assert index_files(session.log) == [f"{CACHE}/0"]
        assert [segment.highest for segment in segments_of(session.log)] == [40]
        assert Retriever(session.log).find("lighthouse", 41, 100, count, Ranges()) == first


def test_only_messages_before_a_number_are_found(store: Store) -> None:
    talk = filled(store, 60)
    assert 3 in talk.numbers("lighthouse", below=4)
    assert 3 not in talk.numbers("lighthouse", below=3)
    assert talk.finds("lighthouse", below=1) == talk.finds("lighthouse", below=-5) == Retrieved()
    assert 3 in talk.numbers("lighthouse", below=10**9)


def test_search_finds_tool_messages_but_no_system_messages(store: Store) -> None:
    talk = Talk(store)
    call = Message("assistant", "", tool_calls=({"id": "c1", "name": "look", "arguments": "{}"},))
    result = Message("tool", "The thermometer shows violet.", tool_call_id="c1", name="look")
    talk.says(Message("system", "Never speak of the thermometer."), user("How warm is it?"), call, result)
    (only,) = [each for each in talk.finds("thermometer").chosen if "thermometer" in each.text]
    assert (only.speaker, only.text) == ("look", "The thermometer shows violet.")


def test_only_the_beginning_of_a_tool_message_is_indexed(store: Store) -> None:
    talk = Talk(store)
    lines = [f"Line {at} tells of the number {at * 31}.\n" for at in range(400)]
    result = Message("tool", "".join([*lines[:20], "Here is the emerald.\n", *lines, "Here is the sapphire.\n"]))
    paste = user("".join([*lines, "Here is the topaz.\n", *lines, *lines]))
    talk.says(user("Look."), result, paste)
    assert "The emerald" not in talk.finds("emerald").chosen[0].text
    assert "Here is the emerald." in talk.finds("emerald").chosen[0].text
    assert not any("sapphire" in each.text for each in talk.finds("sapphire").chosen)
    best = talk.finds("topaz").chosen[0]
    assert "Here is the topaz." in best.text
    assert best.number == 3
    assert best.part > 10


def test_texts_beside_images_are_found_without_reading_the_images(store: Store) -> None:
    talk = Talk(store)
    picture = {"type": "image", "data": "A" * 900_000}
    told = {"type": "text", "text": "This is my dog Barnaby."}
    talk.says(Message("user", [told, picture, {"type": "text", "text": "And this is the cat Mimi."}]))
    assert [each.text for each in talk.finds("Barnaby the dog").chosen] == ["This is my dog Barnaby."]
    talk.says(Message("user", [told, {"type": "image", "data": "B"}, {"type": "text", "text": "Xaver is here."}]))
    assert "This is my dog Barnaby.\nXaver is here." in [each.text for each in talk.finds("Xaver").chosen]


def test_messages_on_abandoned_branches_are_not_found(store: Store) -> None:
    talk = Talk(store)
    talk.says(user("I was born in spring."), answer="How nice.")
    talk.says(user("My favourite town is Lisbon."), answer="Lisbon is by the sea.")
    assert talk.numbers("Which town is my favourite? Lisbon?") >= {3, 4}
    talk.says(user("My favourite town is Porto."), answer="Porto has bridges.", back=2)
    texts = [each.text for each in talk.finds("Which town is my favourite? Lisbon? Porto?").chosen]
    assert {"My favourite town is Porto.", "Porto has bridges.", "I was born in spring."} <= set(texts)
    assert not [text for text in texts if "Lisbon" in text]
    talk.says(answer="Porto is in the north.", back=1)
    texts = [each.text for each in Talk(store).finds("Porto").chosen]
    assert "Porto is in the north." in texts
    assert "Porto has bridges." not in texts


def test_unknown_first_messages_hide_no_logged_message(store: Store) -> None:
    talk = filled(store, 60)
    talk.state = [user("What was before is left out here."), Message("assistant", "Very well.")]
    talk.says(user("And on we go."))
    assert talk.sessions[0].state.branch.history(0)[0].message.content == "What was before is left out here."
    assert 3 in talk.numbers("lighthouse")


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 40)), max_size=60), st.integers(1, 8))
def test_merged_ranges_still_contain_every_abandoned_message(steps: list[tuple[int, int]], most: int) -> None:
    ranges, left, newest = Ranges(), set[int](), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxwrap.session.branch._RANGES", most)
        for more, back in steps:
            newest += more
            alive = [number for number in range(1, newest) if number not in left]
            first = (alive[-back - 1] if back < len(alive) else 0) + 1
            ranges.add(first, newest - 1)
            left |= set(range(first, newest))
            ranges = Ranges(*json.loads(json.dumps(ranges.as_json())))
    assert all(number in ranges for number in left)
    assert newest not in ranges
    if len(ranges.as_json()[0]) < most:
        assert {number for number in range(newest + 50) if number in ranges} == left


BUDGETS = st.one_of(st.integers(-5, 60), st.integers(0, 3000))


QUERIES = st.sampled_from(["lighthouse", "apple bridge", "", "nothing like it", "the time 7"])


@given(BUDGETS, QUERIES, st.integers(0, 90))
def test_search_results_never_exceed_the_budget(budget: int, query: str, below: int) -> None:
    result = TALK.finds(query, below=below, budget=budget)
    headings = {each.heading for each in result.chosen}
    told = "".join([f"## {heading}\n" for heading in headings])
    told += "".join(f"{each.speaker}: {each.text}\n" for each in result.chosen)
    assert count(told) <= max(0, budget)
    assert len(result.missed) <= 12
    assert not {each[:2] for each in result.chosen} & {each[:2] for each in result.missed}
    scores = [each.score for each in result.chosen]
    assert scores == sorted(scores, reverse=True)


TALK = filled(MemoryStore(), 80)

TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
STEPS = st.one_of(
    st.tuples(st.just("say"), TEXTS, TEXTS, st.integers(0, 1)),
    st.tuples(st.just("say"), TEXTS, TEXTS, st.integers(0, 1)),
    st.tuples(st.just("batch"), st.integers(1, 30), TEXTS, st.integers(0, 1)),
    st.tuples(st.just("edit"), st.integers(1, 9), TEXTS, st.integers(0, 1)),
    st.tuples(st.just("ask"), st.integers(0, 60), TEXTS, st.integers(0, 1)),
    st.tuples(st.just("reopen"), st.integers(0, 1)),
    st.tuples(st.just("system"), TEXTS),
    st.tuples(st.just("by hand"), TEXTS),
    st.tuples(st.just("purge"), st.integers(1, 30)),
    st.tuples(st.just("forget"), TEXTS),
    st.tuples(st.just("damage"), st.sampled_from(["cut", "flip", "empty", "gone", "old", "swap", "strange"]),
              st.floats(0, 0.999), st.floats(0, 0.999)),
)  # fmt: skip


class World:
    """A session in files to which anything may happen."""

    def __init__(self, root: Path) -> None:
        self.talk = Talk(FileStore(root), instances=2)
        self.directory = FileStore(root).open(KEY).directory
        self.old: dict[Path, bytes] = {}

    def step(self, kind: str, *details: Any) -> None:
        getattr(self, kind.replace(" ", "_"))(*details)

    def say(self, text: str, answer: str, at: int) -> None:
        self.talk.says(user(text), answer=answer, at=at)

    def batch(self, count: int, text: str, at: int) -> None:
        self.talk.says(*(user(f"{text} {number}") for number in range(count)), at=at)

    def edit(self, back: int, text: str, at: int) -> None:
        self.talk.says(user(text), answer="edited", at=at, back=min(back, len(self.talk.state)))

    def ask(self, below: int, query: str, at: int) -> None:
        self.talk.finds(query, below=below, at=at)

    def reopen(self, at: int) -> None:
        self.talk.sessions[at] = self.talk.opened()

    def system(self, text: str) -> None:
        self.talk.says(Message("system", text), user(text))
        self.talk.state = [message for message in self.talk.state if message.role != "system"]

    def by_hand(self, text: str) -> None:
        with self.talk.sessions[0].locked(), open(self.directory / "messages.jsonl", "ab") as file:
            file.write(json.dumps({"role": "user", "content": text}).encode() + b"\nno record\n")

    def purge(self, number: int) -> None:
        with suppress(NotFound):
            purge(KEY.session, message=number, **self.talk.place)

    def forget(self, query: str) -> None:
        with suppress(NotFound):
            forget(KEY.session, query=query, **self.talk.place)

    def damage(self, how: str, which: float, where: float) -> None:
        files = sorted((self.directory / CACHE).glob("[0-9]*"), key=lambda path: int(path.name))
        if not files:
            return
        path = files[int(len(files) * which)]
        whole = path.read_bytes()
        at = int(len(whole) * where)
        changed = {
            "cut": whole[:at],
            "flip": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] if whole else b"",
            "empty": b"",
            "old": self.old.get(path, whole),
            "swap": files[-1].read_bytes(),
            "strange": b"00000000 [1,2,3]\n" + whole,
        }
        self.old[path] = whole
        path.unlink() if how == "gone" else path.write_bytes(changed[how])

    def compare(self, query: str) -> None:
        log = FileStore(self.directory.parents[5]).open(KEY)
        for session in (*self.talk.sessions, self.talk.opened(), self.talk.opened()):
            self.talk.sessions[0] = session
            session.refresh()
            if not session.is_empty:
                assert found(self.talk, query) == expected(log, query, session.next_message)


@given(st.lists(STEPS, max_size=14), TEXTS, st.sampled_from([4, 8, 64]), st.sampled_from([1, 5, 40]))
def test_incremental_index_finds_what_an_index_made_at_once_finds(
    steps: list[tuple[Any, ...]], query: str, segment: int, unsaved: int
) -> None:
    with TemporaryDirectory() as root, limits(segment=segment, unsaved=unsaved), _silence():
        world = World(Path(root))
        for step in steps:
            world.step(*step)
        world.compare(query)


@contextmanager
def _silence() -> Iterator[None]:
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def test_messages_lost_in_a_power_cut_are_not_found(tmp_path: Path) -> None:
    with limits():
        talk = filled(FileStore(tmp_path), 40)
        talk.finds("apple")
        path = talk.sessions[0].log.directory / "messages.jsonl"  # type: ignore[attr-defined]
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))
        (path.parent / ".checkpoint").unlink(missing_ok=True)
        again = Talk(FileStore(tmp_path))
        again.says(*(user(f"a wholly other thing {number}") for number in range(45)))
        assert found(again, "apple lighthouse") == expected(again.store.open(KEY), "apple lighthouse", 10**9)


def test_many_messages_are_indexed_in_steps(store: Store) -> None:
    with limits(at_once=25):
        talk = filled(store, 90)
        newest = [max(each.number for each in talk.finds(f"the {WORDS[3]}").chosen) for _ in range(4)]
        assert newest[0] <= 25 < 75 < newest[-1]
        assert found(talk, "time bridge") == expected(store.open(KEY), "time bridge", 91)


def test_words_in_nearly_all_messages_find_nothing(store: Store) -> None:
    talk = filled(store, 90)
    assert talk.finds("We spoke of the time") == Retrieved()
    assert 3 in talk.numbers("We spoke of the lighthouse, time and again")


class Watched(PassingLog):
    """A log that tells which of its messages are picked, and which files of the cache are touched."""

    def __init__(self, inner: Log) -> None:
        super().__init__(inner)
        self.picked: list[int] = []
        self.touched: list[str] = []
        self.files = self

    def pick(self, stream: str, numbers: Sequence[int]) -> dict[int, Record]:
        self.picked += numbers
        return self.inner.pick(stream, numbers)

    def __getattr__(self, name: str) -> Any:
        if name not in ("load", "save", "entries", "remove", "extend", "link", "leftovers"):
            return getattr(self.inner, name)
        method = getattr(self.inner.files, name)

        def watched(*args: Any, **options: Any) -> Any:
            self.touched += [f"{name} {arg}" for arg in args[:1] if str(arg).startswith(CACHE)]
            return method(*args, **options)

        return watched


def test_turn_reads_no_index_and_query_indexes_only_new_messages(store: Store) -> None:
    filled(store, 300).finds("lighthouse")
    talk = Talk(store)
    log = Watched(store.open(KEY))
    talk.sessions = [Session(KEY, log)]  # type: ignore[arg-type]
    talk.says(user("And another thing."), answer="Which one?")
    assert (log.touched, log.picked) == ([], [])
    talk.finds("lighthouse", below=302)
    assert [name for name in log.touched if name.startswith("load")] == [f"load {CACHE}/0", f"load {CACHE}/1"]
    assert len([number for number in log.picked if number > 290]) < 30
    log.touched, log.picked = [], []
    talk.finds("nothing of the kind", below=303)
    assert (log.touched, log.picked) == ([], []), "what was said last is at hand"


@pytest.mark.parametrize("secret", [57, 61, 64])
def test_purged_message_leaves_nothing_in_any_index_file(tmp_path: Path, secret: int) -> None:
    """Wherever in a segment of eight it stands."""
    with limits(segment=8):
        talk = filled(FileStore(tmp_path), secret - 1)
        talk.says(user("The secret word is Quetzalcoatlus."), answer="I will tell nobody.")
        talk.says(*(user(f"on and on with the {WORDS[at % 10]}") for at in range(30)))
        assert secret in talk.numbers("Quetzalcoatlus")
        before = index_files(talk.store.open(KEY))
        assert before
        assert holding(tmp_path, b"quetzal")
        purge(KEY.session, message=secret, **talk.place)
        assert holding(tmp_path, b"quetzal") == []
        assert index_files(talk.store.open(KEY)) == [name for name in before if int(name.partition("/")[2]) < 7]
        for again in (talk, Talk(talk.store)):
            assert secret not in again.numbers("Quetzalcoatlus")
            assert 3 in again.numbers("lighthouse")
            assert found(again, "the secret word") == expected(talk.store.open(KEY), "the secret word", 10**9)
        assert holding(tmp_path, b"quetzal") == []


def holding(root: Path, text: bytes) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and text in path.read_bytes().lower()]


def test_index_segment_of_another_edition_is_ignored(store: Store) -> None:
    with limits(segment=8):
        talk = filled(store, 40)
        talk.finds("lighthouse")
        log = store.open(KEY)
        old = {name: log.files.load(name) or b"" for name in index_files(log)}
        purge(KEY.session, message=3, **talk.place)
        with log.locked():
            for name, data in old.items():
                log.files.save(name, data)
        assert segments_of(log) == []
        again = Talk(store)
        assert found(again, "the lighthouse") == expected(log, "the lighthouse", 41)


def test_purge_marker_message_is_not_found(store: Store) -> None:
    talk = filled(store, 20)
    log = store.open(KEY)
    record = as_record(user("a lighthouse"), v=1, seq=21, id="x-1", purged="2026-02-20T18:30:00Z")
    with log.locked():
        log.append({"messages": [record]})
    assert 21 not in talk.numbers("lighthouse")


def test_index_continues_from_an_older_segment(store: Store) -> None:
    with limits(segment=8, at_once=13):
        talk = filled(store, 40)
        talk.finds("apple")
        log = store.open(KEY)
        old = log.files.load(f"{CACHE}/1") or b""
    with limits(segment=8):
        talk.finds("apple")
        assert len(segments_of(log)) == 5
        with log.locked():
            log.files.save(f"{CACHE}/1", old)
        assert [segment.highest for segment in segments_of(log)] == [8, 13]
        assert found(Talk(store), "apple time") == expected(log, "apple time", 41)
        assert len(segments_of(log)) == 5


def test_purge_removes_index_files_left_by_a_crash(tmp_path: Path) -> None:
    talk = filled(FileStore(tmp_path), 10)
    talk.says(user("The secret word is Quetzalcoatlus."))
    directory = FileStore(tmp_path).open(KEY).directory / CACHE
    directory.mkdir()
    for name in (".0.new", "7"):
        (directory / name).write_bytes(b"quetzalcoatlus" * 500)
    purge(KEY.session, message=11, **talk.place)
    assert holding(tmp_path, b"quetzal") == []


def test_index_is_kept_when_events_are_rewritten(tmp_path: Path) -> None:
    with limits(segment=8):
        talk = filled(FileStore(tmp_path), 60)
        talk.finds("lighthouse")
        before = index_files(talk.store.open(KEY))
        session = talk.opened()
        with session.locked():
            rewrite_events(session, lambda event: event, "t9", [], NOW)
        assert index_files(talk.store.open(KEY)) == before
        log = Watched(talk.store.open(KEY))
        talk.sessions = [Session(KEY, log)]  # type: ignore[arg-type]
        talk.finds("lighthouse", budget=0)
        assert len(set(log.picked)) < 40
        assert 3 in talk.numbers("lighthouse")


def test_outdated_process_does_not_overwrite_a_newer_index(tmp_path: Path) -> None:
    with limits(segment=8):
        filled(FileStore(tmp_path), 40)
        slow, fast = (Talk(FileStore(tmp_path)) for _ in range(2))
        slow.finds("apple", below=12)
        fast.finds("apple")
        log = fast.store.open(KEY)
        saved = {name: log.files.load(name) for name in index_files(log)}
        assert len(saved) == 5
        slow.finds("apple", below=20)
        assert {name: log.files.load(name) for name in index_files(log)} == saved
        slow.finds("apple")
        assert found(slow, "apple time") == found(fast, "apple time") == found(Talk(fast.store), "apple time")


def asked(root: Path) -> None:
    talk = Talk(FileStore(root))
    for below in (20, 41):
        talk.finds("apple", below=below)


def test_kill_at_any_system_call_of_index_saving_loses_nothing(tmp_path: Path) -> None:
    with limits(segment=8):
        filled(FileStore(tmp_path / "whole"), 40)
        wanted = expected(FileStore(tmp_path / "whole").open(KEY), "apple time", 41)
        deaths = 0
        for number in range(1, 500):
            root = tmp_path / str(number)
            shutil.copytree(tmp_path / "whole", root)
            if not killed(root, number):
                break
            deaths += 1
            assert found(Talk(FileStore(root)), "apple time") == wanted
            assert found(Talk(FileStore(root)), "apple time") == wanted
            shutil.rmtree(root)
    assert deaths > 30


def killed(root: Path, number: int) -> bool:
    child = os.fork()
    if child == 0:
        with installed(Seam(killing(number))):
            asked(root)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["open", "write", "rename", "unlink", "mkdir"])
@pytest.mark.parametrize("for_ever", [False, True])
def test_refused_index_write_loses_nothing(tmp_path: Path, name: str, for_ever: bool) -> None:
    with limits(segment=8):
        talk = filled(FileStore(tmp_path), 40)
        wanted = expected(talk.store.open(KEY), "apple time", 41)
        for number in range(1, 12):
            shutil.rmtree(talk.store.open(KEY).directory / CACHE, ignore_errors=True)  # type: ignore[attr-defined]
            with installed(Seam(failing(name, number, 28, for_ever=for_ever))), suppress(Exception):
                talk.sessions = [talk.opened()]
                talk.finds("apple time")
            talk.sessions = [talk.opened()]
            assert found(talk, "apple time") == wanted


class Broken(PassingLog):
    def pick(self, stream: str, numbers: Sequence[int]) -> dict[int, Record]:
        raise OSError("it cannot be read")


def test_search_failure_does_not_stop_the_turn(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    talk = filled(store, 100)
    talk.sessions = [Session(KEY, Broken(store.open(KEY)))]  # type: ignore[arg-type]
    assert talk.finds("lighthouse") == Retrieved()
    assert "it cannot be read" in caplog.text
    talk.says(user("On we go."), answer="Yes.")


def raising(text: str) -> int:
    raise ZeroDivisionError


def test_search_with_a_failing_token_counter_finds_nothing(store: Store) -> None:
    session = filled(store, 20).sessions[0]
    with session.locked():
        assert session.retrieve("lighthouse", 21, 100, raising) == Retrieved()
        assert session.retrieve("lighthouse", 21, 100, count).chosen


@pytest.mark.parametrize(
    "record",
    [
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "text", "text": 7}]},
        {"role": "user", "content": 7},
        {"role": ["user"], "content": "a lighthouse"},
        {"role": "user", "content": "a lighthouse", "name": ["x"]},
        {"role": "tool", "content": "…", "ctx": {"blob": {"id": "../../x", "form": "text"}}},
        {"role": "tool", "content": "…", "ctx": {"blob": "strange"}},
        {"role": "user", "content": "a lighthouse", "ctx": {"time": 7}},
        {"role": "user", "content": "a lighthouse", "ctx": {"time": "9999-12-31T23:59:59.9-23:00"}},
        {"role": "user", "content": "a lighthouse \ud800 \0", "ctx": {"time": "0001-01-01T00:00:00+23:00"}},
    ],
)
def test_malformed_record_hides_no_other_record(store: Store, record: Record) -> None:
    talk = filled(store, 20)
    log = store.open(KEY)
    with log.locked():
        log.append({"messages": [{**record, "ctx": {"v": 1, "seq": 21, "id": "x-1", **record.get("ctx", {})}}]})
    talk.says(user("The lighthouse is white."))
    with _silence():
        assert talk.numbers("lighthouse") >= {3, 22}


def test_a_message_that_was_indexed_is_not_read_again_to_be_shown(store: Store) -> None:
    filled(store, 40)
    log, picked = store.open(KEY), list[int]()

    def pick(numbers: Iterable[int]) -> dict[int, Record]:
        picked.extend(numbers := [*numbers])
        return log.pick("messages", numbers)

    retriever = Retriever(log, pick=pick)
    with log.locked():
        assert retriever.find("lighthouse", 30, 2000, count, Ranges()).chosen
        assert retriever.find("the lighthouse and the sea", 41, 2000, count, Ranges()).chosen
    assert picked == [*range(1, 41)]


def test_long_query_finds_what_its_beginning_and_end_find(store: Store) -> None:
    talk = filled(store, 100)
    assert 3 in talk.numbers("lighthouse " + "blah " * 200_000)
    assert 3 in talk.numbers("blah " * 200_000 + " lighthouse")


def test_verify_export_and_collection_ignore_the_index(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    talk = filled(store, 300)
    talk.finds("lighthouse")
    log: FileLog = store.open(KEY)
    assert index_files(log)
    leftover = log.directory / CACHE / ".0.new"
    leftover.write_bytes(b"half")
    os.utime(leftover, (1, 1))
    assert [each for each in verify(KEY.session, **talk.place).findings if each.severity != "note"] == []
    export_session(KEY.session, tmp_path / "out.zip", **talk.place)
    import_session(tmp_path / "out.zip", session="other", **talk.place)
    assert store.open(KEY._replace(session="other")).files.entries(CACHE) == []
    collected = collect_garbage(KEY.session, dry_run=False, **talk.place)
    assert [(each.name, each.removed) for each in collected.files] == [(f"{CACHE}/.0.new", True)]
    assert index_files(log)


@pytest.mark.parametrize("segment", [8, 4096])
def test_what_is_found_does_not_depend_on_how_far_the_index_is_ahead(store: Store, segment: int) -> None:
    with limits(segment=segment):
        talk, sizes = Talk(store), list[int]()
        for at in range(24):
            talk.says(user(f"We spoke of the {WORDS[at % 10]} and the {WORDS[at * 7 % 9]}."), answer=f"Yes, time {at}.")
            session = talk.sessions[0]
            below = max(1, session.next_message - 6)
            query = f"When did we speak of the {WORDS[at * 3 % 10]} and the {WORDS[at % 7]}?"
            passages_found = talk.finds(query, below=below).chosen
            assert [(each.number, each.part) for each in passages_found] == [
                each[:2] for each in expected(session.log, query, below)
            ]
            indexed, _ = session._retriever._index or ((), None)
            sizes.append(len(indexed))
    grown = [before < after for before, after in pairwise(sizes)]
    assert sum(grown) <= len(grown) // 3, "several turns are indexed at once"


def test_a_message_that_was_indexed_ahead_is_gone_after_a_purge(tmp_path: Path) -> None:
    talk = filled(FileStore(tmp_path), 20)
    talk.says(user("The secret word is Quetzalcoatlus."))
    assert 21 not in talk.numbers("Quetzalcoatlus", below=15)
    purge(KEY.session, message=21, **talk.place)
    again = Talk(talk.store)
    again.says(user("Good morning."), answer="Good morning.")
    assert 21 not in again.numbers("the secret word Quetzalcoatlus")
    assert 21 not in talk.numbers("the secret word Quetzalcoatlus")
    assert holding(tmp_path, b"quetzal") == []


def test_a_message_that_was_taken_back_after_it_was_indexed_ahead_is_not_found(store: Store) -> None:
    talk = Talk(store)
    for at in range(4):
        talk.says(user(f"The sun shone, time {at}."), answer="It did.")
    talk.says(user("My cat is called Sibelius."), answer="A fine name.")
    talk.finds("Did the sun shine?", below=5)
    talk.says(user("My cat is called Nielsen."), answer="A fine name.", back=2)
    for at in range(4):
        talk.says(user(f"It rained, time {at}."), answer="It did.")
    found_texts = [each.text for each in talk.finds("What is the name of my cat? Sibelius or Nielsen?").chosen]
    assert "My cat is called Sibelius." not in found_texts
    assert "My cat is called Nielsen." in found_texts
