"""An application's own embedder: called in the background, in batches; its vectors find, stay, and go with a purge."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openai import OpenAI

import ctxwrap
from ctxwrap.errors import SettingsError
from ctxwrap.retrieval.embedder import as_embedder
from ctxwrap.session.purge import purge
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores.files.locks import try_lock
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Provider
from tests.retrieval.conversations import ByWord
from tests.session.test_embeddings import row_of, silence
from tests.session.test_search import KEY, Talk, filled, user


class Model:
    """Knows what it was asked for, and may be out of order."""

    name = "by word"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.works = True

    def __call__(self, texts: list[str]) -> Any:
        if not self.works:
            raise ConnectionError("no route to the model")
        self.calls.append(texts)
        return ByWord()(texts).tolist()


class Embedded(Talk):
    """A chat whose sessions have an embedder in their settings."""

    model: Any = None

    def opened(self) -> Session:
        return Session(KEY, self.store.open(KEY), Settings(embedder=self.model))


def chat(root: Path, model: Any, messages: int = 40) -> Embedded:
    talk = filled(FileStore(root), messages)
    talk.says(user("Tomorrow the ship leaves."), answer="I see.")
    return reopened(root, model)


def reopened(root: Path, model: Any) -> Embedded:
    talk = Embedded(FileStore(root))
    talk.model = model
    talk.sessions = [talk.opened()]
    with talk.sessions[0].locked():
        pass
    return talk


def test_messages_are_embedded_in_the_background_in_batches(tmp_path: Path) -> None:
    model = Model()
    talk = chat(tmp_path, model, 150)
    assert talk.finds("Vessel?").chosen == ()
    assert all(len(call) == 1 for call in model.calls), "a query embeds no message"
    model.calls.clear()
    talk.sessions[0].catch_up()
    assert [len(call) for call in model.calls] == [64, 64, 24]
    model.calls.clear()
    found = talk.finds("Vessel?").chosen
    assert [each.text for each in found][:1] == ["Tomorrow the ship leaves."]
    assert model.calls == [["Vessel?"]]
    talk.sessions[0].catch_up()
    assert model.calls == [["Vessel?"]], "nothing is new"


def test_vectors_of_an_embedder_survive_a_restart(tmp_path: Path) -> None:
    chat(tmp_path, Model()).sessions[0].catch_up()
    model = Model()
    talk = reopened(tmp_path, model)
    talk.sessions[0].catch_up()
    assert talk.finds("Vessel?").chosen[0].number == 41
    assert {text for call in model.calls for text in call} <= {"Vessel?", "dimensions"}


def test_what_meaning_found_survives_the_cut_beside_a_match_of_words(tmp_path: Path) -> None:
    talk = chat(tmp_path, Model())
    talk.sessions[0].catch_up()
    found = talk.finds("Was the vessel near the lighthouse of Skerryvore?").chosen
    assert {3, 41} <= {each.number for each in found}


def test_a_purged_message_has_no_vector(tmp_path: Path) -> None:
    talk = chat(tmp_path, Model())
    text = "The secret ship is called Quetzalcoatlus."
    talk.says(user(text), answer="I will tell nobody.")
    talk.sessions[0].catch_up()
    row = row_of(text)
    assert any(row in path.read_bytes() for path in tmp_path.rglob("meaning-*"))
    purge(KEY.session, message=43, **talk.place)
    reopened(tmp_path, Model()).sessions[0].catch_up()
    assert not any(row in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_message_purged_while_it_is_embedded_has_no_vector(tmp_path: Path) -> None:
    talk = chat(tmp_path, None)
    text = "The secret ship is called Quetzalcoatlus."
    talk.says(user(text), answer="I will tell nobody.")

    def purging(texts: list[str]) -> Any:
        if text in texts:
            purge(KEY.session, message=43, **talk.place)
        return ByWord()(texts)

    reopened(tmp_path, purging).sessions[0].catch_up()
    assert not any(row_of(text) in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_an_embedder_that_fails_leaves_search_by_words(tmp_path: Path) -> None:
    model = Model()
    model.works = False
    talk = chat(tmp_path, model)
    with silence():
        talk.sessions[0].catch_up()
        assert talk.finds("lighthouse").chosen[0].number == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_a_clients_embeddings_api_is_an_embedder(is_async: bool) -> None:
    asked: list[dict[str, Any]] = []

    def answer(**body: Any) -> Any:
        asked.append(body)
        rows = ByWord()(body["input"]).tolist()
        data = [SimpleNamespace(index=at, embedding=row) for at, row in enumerate(rows)]
        return SimpleNamespace(data=data[::-1])

    async def later(**body: Any) -> Any:
        await asyncio.sleep(0)
        return answer(**body)

    client = SimpleNamespace(embeddings=SimpleNamespace(create=later if is_async else answer))
    embedder = as_embedder((client, "small"))
    texts: Sequence[str] = ["The ship left.", "tea"] * 40
    assert embedder(texts).tolist() == pytest.approx(ByWord()(texts))
    assert (embedder.name, embedder.dimensions) == ("small", 16)
    assert [(each["model"], len(each["input"])) for each in asked] == [("small", 64), ("small", 16)]


def test_a_setting_that_is_no_embedder_is_rejected() -> None:
    for wrong in ("text-embedding-3-small", ("client", "model"), 3):
        with pytest.raises(SettingsError, match="embedder"):
            Settings(embedder=wrong)


def test_question_is_embedded_before_the_session_is_locked(tmp_path: Path, provider: Provider) -> None:
    is_free: list[bool] = []

    def embed(texts: list[str]) -> Any:
        if texts == ["Where does the ship go tomorrow?"]:
            release = try_lock(str(next(tmp_path.rglob("session/s/.lock"))))
            is_free.append(release is not None)
            if release is not None:
                release()
        return ByWord()(texts).tolist()

    client: Any = ctxwrap.wrap(
        OpenAI(api_key="x", base_url=provider.openai_url), store=str(tmp_path), session="s", embedder=embed
    )
    for text in ("Tomorrow the ship leaves.", "I see.", "Where does the ship go tomorrow?"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        ctxwrap.flush()
    assert is_free == [True]
