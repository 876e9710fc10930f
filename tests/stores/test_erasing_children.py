"""Erasure reaches children: what they were handed and gave back is in no byte, and in no prompt to come."""

import base64
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.memory.similarity import fingerprints
from ctxwrap.session.child_sessions import attach_result, children_of, start_child
from ctxwrap.stores.base import STREAMS, Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from tests.session.telling import KEY, Teller, directory_of, item
from tests.stores.test_files import dies_at
from tests.stores.test_postgres_chats import everything_in
from tests.support import PROFILE

WORD = "Zébrafish-Quinoa-4711"
SAID = f"My code word is {WORD}, keep it."
HARMLESS = "The build passed without warnings."
PATCH = b"--- a\n+++ b\n"


def forms(text: str) -> set[bytes]:
    """The ways in which a text may stand in a file."""
    once = {text, text.upper(), text.casefold(), json.dumps(text)[1:-1], json.dumps(json.dumps(text))[3:-3]}
    encoded = {each.encode(form) for each in once for form in ("utf-8", "utf-16-le", "utf-16-be")}
    return encoded | {text.encode().hex().encode(), base64.b64encode(text.encode()).rstrip(b"=")[:-1]}


def places_of(store: Store, *texts: str) -> list[str]:
    """Where one of the texts stands: in the log and files as who may read them sees them, and in any byte on disk."""
    wanted = {form for text in texts for form in forms(text)}
    log = store.open(KEY)
    found = {stream: json.dumps(log.read(stream)[0], ensure_ascii=False).encode() for stream in STREAMS}
    for directory in ("", ".index"):
        found |= {entry.name: log.files.load(entry.name) or b"" for entry in log.files.entries(directory)}
    if isinstance(store, FileStore):
        found |= {str(path): path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
        found |= {f"{path}, its name": path.name.encode() for path in store.root.rglob("*")}
    return sorted(name for name, data in found.items() if any(form in data for form in wanted))


def tell(parent: Teller, word: str = WORD) -> None:
    """A parent whose child was handed the word, and gave it back in every way that there is."""
    parent.says(f"My code word is {word}, keep it.")
    parent.chats(1)
    start_child("s", "kid", handoff=f"Mind what follows.\nThe door opens by {word.upper()}.", **parent.place)
    refs = [{"id": "r1", "path": f"artifact/{word}", "kind": "file", "summary": f"where {word} stands"}]
    artifacts = {
        "plain.txt": f"in the middle of a line, {word} is written among many other words".encode(),
        "binary": b"\x00\xff" + word.encode() + b"\x00",
        "wide.txt": f"the word: {word}".encode("utf-16"),
        "fix.patch": PATCH,
        "code-4711-quinoa": b"nothing in it",
    }
    attach_result(
        "s", "kid", result=f"{HARMLESS}\nIt was {word}, as you said.", refs=refs, artifacts=artifacts, **parent.place
    )
    start_child("s", "other", handoff="Run the build.", **parent.place)
    attach_result("s", "other", result=HARMLESS, artifacts={"fix.patch": PATCH}, **parent.place)
    parent.chats(1)


@pytest.fixture(params=["files", "encrypted", "memory", "postgres"])
def parent(request: pytest.FixtureRequest, tmp_path: Path) -> Teller:
    kind, key = request.param, "11" * 32 if request.param == "encrypted" else None
    place = request.getfixturevalue("database") if kind == "postgres" else "memory:" if kind == "memory" else tmp_path
    return Teller(ctxwrap.open_store(place, **({"key": key} if key else {})))


def read(parent: Teller, name: str) -> bytes:
    return parent.store.open(KEY).files.load(f"context/child/{name}") or b""


def is_whole(parent: Teller) -> bool:
    return not ctxwrap.verify("s", **parent.place).findings


def test_purged_message_is_removed_from_children(parent: Teller) -> None:
    tell(parent)
    assert len(places_of(parent.store, WORD)) > 8
    assert "child/kid" in ctxwrap.purge("s", message=1, **parent.place)
    assert places_of(parent.store, WORD, "Zébrafish") == []
    assert read(parent, "kid/handoff.md") == b"Mind what follows.\n[forgotten]\n"
    assert read(parent, "kid/result.md") == f"{HARMLESS}\n[forgotten]\n".encode()
    assert read(parent, "kid/artifact/fix.patch") == PATCH
    assert read(parent, "other/result.md") == f"{HARMLESS}\n".encode()
    assert read(parent, "other/artifact/fix.patch") == PATCH
    assert [child.status for child in children_of("s", **parent.place)] == ["done", "done"]
    assert is_whole(parent)
    parent.chats(1)
    assert places_of(parent.store, WORD, "Zébrafish") == []


def test_purged_text_is_in_no_database_row(database: str) -> None:
    parent = Teller(ctxwrap.open_store(database))
    tell(parent)
    assert WORD.encode() in everything_in(database)
    ctxwrap.purge("s", message=1, **parent.place)
    assert not [form for form in forms(WORD) if form in everything_in(database)]


def test_forgetting_a_query_removes_its_text_from_memory_and_children(parent: Teller) -> None:
    tell(parent)
    parent.says("Remember it.", keeps=[item("e-1", f"The word is {WORD}.")])
    names = ctxwrap.open_session("s", **parent.place).would_forget(query=WORD)
    assert set(names) == {"e-1", "child/kid"}
    assert ctxwrap.forget("s", query=WORD, **parent.place) == names
    assert [place for place in places_of(parent.store, WORD) if "messages.jsonl" not in place] in ([], ["messages"])
    assert read(parent, "other/result.md") == f"{HARMLESS}\n".encode()
    assert ctxwrap.forget("s", query=WORD, **parent.place) == ()
    assert is_whole(parent)


def test_forgetting_a_query_removes_text_that_only_a_child_has(parent: Teller) -> None:
    parent.chats(2)
    start_child("s", "kid", handoff="Ask Lindqvist.", **parent.place)
    assert ctxwrap.forget("s", query="lindqvist", **parent.place) == ("child/kid",)
    assert places_of(parent.store, "Lindqvist") == []
    assert ctxwrap.forget("s", query="weather", **parent.place) == (), "messages stay"
    assert is_whole(parent)


def test_forgotten_item_is_removed_from_children(parent: Teller) -> None:
    parent.says("Hello.", keeps=[item("e-1", f"The code word of the user is {WORD}."), item("e-2", "Ada drinks tea.")])
    start_child("s", "kid", handoff=f"Go on.\nTell them {WORD} when you are at the door of the house.", **parent.place)
    attach_result("s", "kid", result="Done.", artifacts={"a": WORD.encode(), "b": PATCH}, **parent.place)
    assert ctxwrap.forget("s", item="e-1", **parent.place) == ("e-1", "child/kid")
    assert places_of(parent.store, WORD) == []
    assert read(parent, "kid/handoff.md") == b"Go on.\n[forgotten]\n"
    assert read(parent, "kid/artifact/b") == PATCH


def test_contents_of_a_child_can_be_purged_alone(parent: Teller) -> None:
    tell(parent)
    before = parent.store.open(KEY).read("messages")[0]
    assert ctxwrap.purge("s", child="kid", **parent.place) == ("child/kid",)
    assert [place for place in places_of(parent.store, WORD) if "messages" not in place and "latest" not in place] == []
    assert read(parent, "kid/handoff.md") == read(parent, "kid/result.md") == b"[forgotten]\n"
    assert read(parent, "kid/refs.jsonl") == b""
    assert not list(parent.store.open(KEY).files.entries("context/child/kid/artifact"))
    assert read(parent, "other/artifact/fix.patch") == PATCH
    assert parent.store.open(KEY).read("messages")[0] == before
    assert ctxwrap.purge("s", child="kid", **parent.place) == (), "there is nothing left to purge"
    assert is_whole(parent)


def test_purging_an_unknown_child_is_an_error(tmp_path: Path) -> None:
    parent = Teller(FileStore(tmp_path))
    parent.chats(1)
    with pytest.raises(NotFound, match="no child 'kid'"):
        ctxwrap.purge("s", child="kid", **parent.place)
    with pytest.raises(SettingsError, match="either a message or a child"):
        ctxwrap.purge("s", **parent.place)
    with pytest.raises(SettingsError, match="either a message or a child"):
        ctxwrap.purge("s", message=1, child="kid", **parent.place)


@pytest.mark.parametrize(
    "erase",
    [
        lambda home: ctxwrap.purge("s", child="kid", store=home),
        lambda home: ctxwrap.forget("s", query="quinoa", store=home),
    ],
)
def test_erased_text_is_in_no_prompt(provider: Provider, home: Path, erase: Callable[[Path], Any]) -> None:
    asked: list[str] = []

    def answer(ask: Ask) -> Answer:
        asked.append(json.dumps(ask.body, ensure_ascii=False))
        return Answer("Look at it.")

    provider.answer = answer
    client = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    wrapped = ctxwrap.wrap(client, store=home, session="s", context_mode="readonly")

    def ask() -> str:
        wrapped.chat.completions.create(model="practice", messages=[{"role": "user", "content": "What came back?"}])
        return asked[-1]

    ask()
    start_child("s", "kid", handoff=f"Find {WORD}.", store=home)
    attach_result("s", "kid", result=f"Found {WORD}.", store=home)
    assert WORD in ask()
    erase(home)
    assert places_of(FileStore(home), WORD) == []
    assert WORD not in ask()
    assert places_of(FileStore(home), WORD) == []


@pytest.mark.parametrize(
    ("erase", "first"),
    [
        (lambda home: ctxwrap.purge("s", message=1, store=home), 0),
        (lambda home: ctxwrap.purge("s", child="kid", store=home), 5),
        (lambda home: ctxwrap.forget("s", query="quinoa", store=home), 10),
    ],
)
def test_interrupted_erasure_can_be_repeated(tmp_path: Path, erase: Callable[[Path], Any], first: int) -> None:
    tell(Teller(FileStore(tmp_path / "before")))
    deaths = 0
    for step in itertools.count(*((0, 5) if PROFILE == "thorough" else (first, 15))):
        home = tmp_path / str(step)
        shutil.copytree(tmp_path / "before", home)
        died = dies_at(step, lambda at=home: erase(at))
        deaths += died
        erase(home)
        left = [name for name in places_of(FileStore(home), WORD) if "context/child" in name or "raw/" in name]
        assert left == []
        assert not ctxwrap.verify("s", store=home).is_damaged
        if not died:
            break
    assert deaths > 3


def test_purge_command_asks_before_purging_a_child(tmp_path: Path) -> None:
    parent = Teller(FileStore(tmp_path))
    tell(parent)
    child = directory_of(parent.store) / "context/child/kid"
    run = ["purge", "s", "--child", "kid", "--store", str(tmp_path)]
    assert CliRunner().invoke(main, run, input="\n").exit_code == 1
    assert WORD.upper() in (child / "handoff.md").read_text()
    done = CliRunner().invoke(main, run, input="y\n")
    assert done.exit_code == 0
    assert "deleted the texts of child kid" in done.output
    assert (child / "handoff.md").read_text() == "[forgotten]\n"
    asked = CliRunner().invoke(main, ["forget", "s", "--query", "passed", "--yes", "--store", str(tmp_path)])
    assert "texts of child other" in asked.output
    nobody = CliRunner().invoke(main, ["purge", "s", "--child", "nobody", "--yes", "--store", str(tmp_path)])
    assert (nobody.exit_code, "no child 'nobody'" in nobody.output) == (1, True)


CODES = st.from_regex(r"[a-z]{3}-[0-9]{4}[a-z]{2}", fullmatch=True)
AROUND = st.text(alphabet="abc .,;:()\n", max_size=30)


@given(CODES, AROUND, AROUND)
def test_fingerprints_match_a_code_in_any_surrounding_text(code: str, before: str, behind: str) -> None:
    assert fingerprints(f"it is {code}") & fingerprints(f"{before} {code.upper()} {behind}")
