"""Extracts: a stretch of messages says the same, whenever somebody looks at it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.memory.similarity import content_words
from ctxwrap.session.extract import Extract, paths_in
from ctxwrap.session.swap import Chunk
from ctxwrap.types import Message

texts = st.lists(st.sampled_from(["Anna", "pays 7", "pays 12", "the rent.", "why?", "\n", "ok!", "日程。"]), max_size=8)
messages = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "tool"]), texts.map(" ".join), st.booleans()), max_size=20
)


@given(st.lists(st.text(max_size=30) | st.text("aB_'’é \u0301\u0345ΐßǅ日-\n", max_size=12), max_size=6))
def test_chunk_has_the_words_of_its_messages(said: list[str]) -> None:
    chunk = Chunk(1)
    for number, text in enumerate(said, 1):
        chunk.add(number, Message("user", text), f"{number}", 1, "")
    chunk.read()
    assert chunk.words == set[str]().union(*map(content_words, said))


@given(messages)
def test_extract_does_not_depend_on_when_it_is_looked_at(said: list[tuple[str, str, bool]]) -> None:
    often, once = Extract(), Extract()
    for number, (role, text, looks) in enumerate(said, 1):
        often.add(number, role, text)
        once.add(number, role, text)
        if looks:
            often.best()
            often = Extract.from_json(json.loads(json.dumps(often.as_json()))) if number % 3 == 0 else often
    assert often.best() == once.best()


@given(messages)
def test_chunk_does_not_depend_on_when_it_is_looked_at(said: list[tuple[str, str, bool]]) -> None:
    often, once = Chunk(1), Chunk(1)
    for number, (role, text, looks) in enumerate(said, 1):
        message = Message(role, text)
        for chunk in (often, once):
            chunk.add(number, message, "digest", 300, f"id-{number}")
        if looks:
            assert often.row.last == number
            often = Chunk.from_json(json.loads(json.dumps(often.as_json()))) if number % 2 == 0 else often
        if once.is_full:
            break
    assert often.as_line() == once.as_line()
    assert json.dumps(often.as_json()) == json.dumps(once.as_json())


@given(st.text("a./ \n,)-:"))
def test_the_paths_of_a_text_are_those_of_its_words(text: str) -> None:
    text = text.replace("a", "ab.py")
    assert list(paths_in(text)) == [path for word in text.split() for path in paths_in(word)]
