"""What messages mean is found beside their words, costs what is new, and is never in the way of the words."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.retrieval.vectors import Embedder, Vectors
from ctxwrap.session.gc import collect_garbage
from ctxwrap.session.index_files import meanings, segments_of
from ctxwrap.session.purge import purge
from ctxwrap.session.search import Embedding, embedding_for
from ctxwrap.settings import Settings
from ctxwrap.stores.base import CACHE, Log, Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from tests.retrieval.conversations import ByWord
from tests.session.test_search import (
    KEY,
    STEPS,
    TEXTS,
    WORDS,
    Talk,
    World,
    expected,
    filled,
    found,
    index_files,
    limits,
    user,
)


class Counted(ByWord):
    """Knows what it was asked for."""

    def __init__(self) -> None:
        self.loads = 0
        self.texts: list[str] = []

    def loaded(self) -> Embedder:
        self.loads += 1
        return self

    def __call__(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        return super().__call__(texts)


class Backwards(ByWord):
    name = "backwards"

    def __call__(self, texts: Sequence[str]) -> Any:
        return super().__call__(texts)[:, ::-1]


class FailsAt(ByWord):
    """Fails for texts that a test names."""

    def __init__(self, fails: Callable[[str], bool]) -> None:
        self.fails = fails

    def __call__(self, texts: Sequence[str]) -> Any:
        if any(map(self.fails, texts)):
            raise MemoryError("no room for this one")
        return super().__call__(texts)


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FileStore(tmp_path) if request.param == "files" else MemoryStore()


@contextmanager
def small(*, segment: int = 8, at_once: int = 400_000, **more: int) -> Iterator[None]:
    with limits(segment=segment, **more), pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxwrap.retrieval.vectors.SIZE", segment)
        patch.setattr("ctxwrap.session.search._MEANT_AT_ONCE", at_once)
        yield


def meant_files(log: Log) -> list[str]:
    return [name for name in index_files(log) if "meaning" in name]


def talking_of_a_ship(store: Store, embedding: Embedding | None) -> Talk:
    talk = filled(store, 40, embedding)
    talk.says(user("Tomorrow the ship leaves."), answer="I see.")
    return talk


def test_message_is_found_by_meaning_without_a_common_word(store: Store) -> None:
    talk = talking_of_a_ship(store, ByWord)
    best = talk.finds("Vessel?").chosen[0]
    assert (best.number, best.text, best.reasons[0]) == (41, "Tomorrow the ship leaves.", "meaning")
    talk.embedding = None
    talk.sessions = [talk.opened()]
    assert 41 not in talk.numbers("Vessel?")


EMBEDDERS: dict[str, Embedder | None] = {"words": None, "one": ByWord(), "other": Backwards()}


class MeaningWorld(World):
    """One in which models come and go."""

    def model(self, name: str, at: int) -> None:
        self.talk.embedding = lambda: EMBEDDERS[name]
        self.reopen(at)

    def damage_meaning(self, which: float, where: float, gone: bool) -> None:
        files = sorted((self.directory / CACHE).glob("meaning-*"))
        if files:
            path = files[int(len(files) * which)]
            whole = bytearray(path.read_bytes() or b"\0")
            whole[int(len(whole) * where)] ^= 1
            path.unlink() if gone else path.write_bytes(whole)

    def compare(self, query: str) -> None:
        log = FileStore(self.directory.parents[5]).open(KEY)
        for embedder in EMBEDDERS.values():
            self.talk.embedding = lambda embedder=embedder: embedder  # type: ignore[misc]
            for _ in range(2):
                session = self.talk.sessions[0] = self.talk.opened()
                session.refresh()
                if not session.is_empty:
                    assert found(self.talk, query) == expected(log, query, session.next_message, embedder=embedder)


MODELS = st.tuples(st.just("model"), st.sampled_from(sorted(EMBEDDERS)), st.integers(0, 1))
DAMAGES = st.tuples(st.just("damage meaning"), st.floats(0, 0.999), st.floats(0, 0.999), st.booleans())


@given(st.lists(st.one_of(STEPS, STEPS, MODELS, DAMAGES), max_size=14), TEXTS, st.sampled_from([4, 8, 64]),
       st.sampled_from([1, 5, 40]))  # fmt: skip
def test_incremental_vectors_find_what_vectors_made_at_once_find(
    steps: list[tuple[Any, ...]], query: str, segment: int, unsaved: int
) -> None:
    with TemporaryDirectory() as root, small(segment=segment, unsaved=unsaved), silence():
        world = MeaningWorld(Path(root))
        world.model("one", 0)
        for step in steps:
            world.step(*step)
        world.compare(query)


@contextmanager
def silence() -> Iterator[None]:
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def test_embedding_model_is_loaded_once_at_the_first_query(store: Store) -> None:
    model = Counted()
    talk = talking_of_a_ship(store, model.loaded)
    assert model.loads == 0
    talk.finds("Vessel?", below=1)
    assert model.loads == 0
    for _ in range(3):
        talk.finds("Vessel?")
    assert model.loads == 1


def test_only_new_messages_are_embedded(store: Store) -> None:
    with small():
        model = Counted()
        talk = talking_of_a_ship(store, model.loaded)
        talk.finds("Vessel?")
        assert len(model.texts) == 42 + 1
        model.texts.clear()
        talk.says(user("And the tea?"))
        talk.finds("Vessel?")
        assert model.texts == ["And the tea?", "Vessel?"]
        model.texts.clear()
        talk.sessions = [talk.opened()]
        talk.finds("Brew?")
        assert len(model.texts) <= 1 + 3
        assert model.texts[-1] == "Brew?"


def test_many_messages_are_embedded_in_steps_and_used_when_complete(store: Store) -> None:
    with small(at_once=2000):
        model = Counted()
        filled(store, 150).says(user("Tomorrow the ship leaves."), answer="I see.")
        talk = Talk(store, embedding=model.loaded)
        log, query = store.open(KEY), "Vessel? And the bridge?"
        words, meaning = (expected(log, query, 153, embedder=each) for each in (None, ByWord()))
        assert words != meaning
        answers, embedded = [], []
        while not answers or answers[-1] == words:
            answers.append(found(talk, query))
            embedded.append(sum(map(len, model.texts)))
            model.texts.clear()
        assert answers[-1] == meaning
        assert len(answers) > 2
        assert max(embedded) < 2000 + 32 * 50


def test_vectors_of_another_model_are_recomputed(store: Store) -> None:
    with small():
        talk = talking_of_a_ship(store, ByWord)
        talk.finds("Vessel?")
        log = store.open(KEY)
        assert [segment.highest for segment in segments_of(log, meanings(ByWord.name))] == [8, 16, 24, 32, 40, 42]
        other = Talk(store, embedding=Backwards)
        assert found(other, "Vessel?") == expected(log, "Vessel?", 43, embedder=Backwards())
        assert segments_of(log, meanings(ByWord.name)) == []
        assert len(segments_of(log, meanings(Backwards.name))) == 6
        assert found(talk, "Vessel?") == expected(log, "Vessel?", 43, embedder=ByWord())


def test_client_without_a_model_leaves_vectors_unchanged(store: Store) -> None:
    with small():
        talking_of_a_ship(store, ByWord).finds("Vessel?")
        log = store.open(KEY)
        before = {name: log.files.load(name) for name in meant_files(log)}
        assert len(before) == 6
        Talk(store).finds("Vessel?")
        assert {name: log.files.load(name) for name in meant_files(log)} == before


@pytest.mark.parametrize("embedding", [None, ByWord])
@pytest.mark.parametrize("secret", [57, 61, 64])
def test_purged_message_leaves_no_vector_in_any_file(tmp_path: Path, secret: int, embedding: Embedding | None) -> None:
    """Whoever purges it, and wherever in a segment of eight it stands."""
    with small():
        talk = filled(FileStore(tmp_path), secret - 1, ByWord)
        text = "The secret word is Quetzalcoatlus."
        talk.says(user(text), answer="I will tell nobody.")
        talk.says(*(user(f"on and on with the {WORDS[at % 10]}") for at in range(30)))
        talk.finds("secret")
        row = row_of(text)
        assert any(row in path.read_bytes() for path in tmp_path.rglob("meaning-*"))
        talk.embedding = embedding
        talk.sessions = [talk.opened()]
        purge(KEY.session, message=secret, **talk.place)
        log = talk.store.open(KEY)
        assert meant_files(log) == [f"{CACHE}/meaning-{ordinal}" for ordinal in range(7)]
        again = Talk(talk.store, embedding=ByWord)
        assert found(again, "the secret word") == expected(log, "the secret word", 10**9, embedder=ByWord())
        assert not any(row in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def row_of(text: str) -> bytes:
    (data,) = _saved(text).values()
    return data[-4 - ByWord.dimensions : -4]


def _saved(text: str) -> dict[int, bytes]:
    vectors = Vectors(ByWord())
    vectors.add(1, text)
    return vectors.unsaved()


def test_outdated_process_does_not_overwrite_newer_vectors(tmp_path: Path) -> None:
    with small():
        filled(FileStore(tmp_path), 40)
        slow, fast = (Talk(FileStore(tmp_path), embedding=ByWord) for _ in range(2))
        slow.finds("apple", below=12)
        fast.finds("apple")
        log = fast.store.open(KEY)
        saved = {name: log.files.load(name) for name in meant_files(log)}
        assert len(saved) == 5
        slow.finds("apple", below=20)
        assert {name: log.files.load(name) for name in meant_files(log)} == saved
        assert found(slow, "apple time") == found(fast, "apple time")


def unloadable() -> Embedder:
    raise OSError("the table is damaged")


@pytest.mark.parametrize(
    "embedding",
    [
        unloadable,
        lambda: None,
        lambda: FailsAt(lambda text: True),
        lambda: FailsAt(lambda text: text.startswith("Vessel")),
        lambda: FailsAt(lambda text: not text.startswith("Vessel")),
    ],
    ids=["unloadable", "none", "always", "questions", "messages"],
)
def test_search_by_words_works_whatever_the_embedding_model_does(store: Store, embedding: Embedding) -> None:
    talk = talking_of_a_ship(store, embedding)
    with silence():
        for _ in range(3):
            assert found(talk, "Vessel? lighthouse") == expected(store.open(KEY), "Vessel? lighthouse", 43)


def test_message_that_cannot_be_embedded_hides_no_other_message(store: Store) -> None:
    talk = talking_of_a_ship(store, lambda: FailsAt(lambda text: "lighthouse" in text))
    assert talk.finds("Vessel?").chosen[0].number == 41


def test_failing_embedding_model_is_reported_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    talk = talking_of_a_ship(store, unloadable)
    for _ in range(3):
        talk.finds("lighthouse")
    assert caplog.text.count("the table is damaged") == 1


def test_vector_files_left_by_a_crash_are_collected(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    talk = talking_of_a_ship(store, ByWord)
    talk.finds("Vessel?")
    directory = store.open(KEY).directory / CACHE
    directory.mkdir(exist_ok=True)
    for name in (".meaning-0.new", ".meaning-x.new"):
        (directory / name).write_bytes(b"half")
        os.utime(directory / name, (1, 1))
    collected = collect_garbage(KEY.session, dry_run=False, **talk.place)
    assert [each.name for each in collected.files] == [f"{CACHE}/.meaning-0.new"]


def test_no_embedding_model_is_used_without_the_setting() -> None:
    assert embedding_for(Settings())() is None


def test_embedding_library_is_not_imported_unless_used() -> None:
    code = (
        "import sys\n"
        "from tests.session.test_search import MemoryStore, filled\n"
        "for name in [name for name in sys.modules if 'vectors' in name]: del sys.modules[name]\n"
        "assert filled(MemoryStore(), 50).finds('lighthouse').chosen\n"
        "print(sorted({'wordllama', 'ctxwrap.retrieval.vectors', 'ctxwrap.retrieval.wordllama'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_embedding_extra_finds_messages_by_meaning(store: Store) -> None:
    pytest.importorskip("wordllama")
    settings = Settings(embeddings=True)
    talk = filled(store, 60, embedding_for(settings))
    talk.says(user("Our physician prescribed some tablets."), answer="Get well soon.")
    best = talk.finds("What medicine did the doctor give me?").chosen[0]
    assert (best.number, best.reasons[0]) == (61, "meaning")
    assert embedding_for(settings)() is embedding_for(settings)()
