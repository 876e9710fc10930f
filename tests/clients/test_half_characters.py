"""Half a character in a message, such as a careless cut leaves: it is logged, and sent as what can be sent."""

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.providers.messages import sendable
from ctxwrap.testing.practice import Provider
from tests.support import said

TEXTS = ["half \ud83d of it", "the other \ude00", "fine \U0001f600"]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_session_accepts_lone_surrogates(provider: Provider, home: Path, kind: str) -> None:
    def ask(text: str) -> Any:
        given: Any = [{"role": "user", "content": text}]
        if kind == "openai":
            bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
            return ctxwrap.wrap(bare, store=home, session="s").chat.completions.create(model="m", messages=given)
        other = anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url, max_retries=0)
        return ctxwrap.wrap(other, store=home, session="s").messages.create(model="m", max_tokens=9, messages=given)

    for text in TEXTS:
        turn = ctxwrap.turn_of(ask(text))
        assert turn is not None
        assert (turn.mode, turn.report.not_saved) == ("enabled", ())
    assert [text for role, text in said(home, "s") if role == "user"] == TEXTS
    assert not ctxwrap.verify("s", store=home).findings


CHARACTERS = st.characters(categories=None) | st.sampled_from("\ud7ff\ud800\udfff\ue000퀀í")
TEXT = st.text(CHARACTERS, max_size=4)


@given(
    st.recursive(TEXT | st.integers() | st.none(), lambda it: st.lists(it) | st.dictionaries(TEXT, it), max_leaves=6)
)
def test_sendable_can_be_encoded_and_changes_nothing_else(value: Any) -> None:
    written = json.dumps(value, ensure_ascii=False)
    is_whole = not any("\ud800" <= each <= "\udfff" for each in written)
    json.dumps(sendable(value), ensure_ascii=False).encode()
    assert (sendable(value) is value) == is_whole


def test_sendable_replaces_only_lone_surrogates() -> None:
    body = {"a": ["\ud800x", {"b": "\ud83d\ude00", "c": 1}], "d": "héllo", "\udc00": None}
    assert sendable(body) == {"a": ["\ufffdx", {"b": "\U0001f600", "c": 1}], "d": "héllo", "\ufffd": None}
    whole = {"a": [{"b": "héllo \U0001f600"}], "c": 1}
    assert sendable(whole) is whole
