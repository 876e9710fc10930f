"""Visibility of pack items: decided when the pack is made; targets that are not named see nothing."""

from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.errors import SettingsError
from ctxwrap.export.evidence import envelope_of, faults_in
from ctxwrap.kinds import seen_by
from ctxwrap.redaction.visibility import MODEL_ONLY, TARGETS
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.testing.practice.answer import ToolCall
from ctxwrap.types import SessionKey
from tests.export.logs import Chat
from tests.support import Told

SECRET = "heliotrope-seventeen"
KEY = SessionKey("default", "default", "s")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def manifest(directory: Path, **visibility: Any) -> str:
    """Two files, `open.md` for the model and `key.md` for whom is said."""
    (directory / "open.md").write_text("the house opens at nine")
    (directory / "key.md").write_text(SECRET)
    lines = ["files:", "  - path: open.md", "    priority: 0.5", "  - path: key.md", "    priority: 1.0"]
    lines += [f"    visibility: {value}" for value in visibility.values()]
    (directory / "working-set.yml").write_text("\n".join(lines) + "\n")
    return str(directory / "working-set.yml")


class Listening(Told):
    """A provider that keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = ""

    def __call__(self, ask: Ask) -> Answer:
        self.sent += str(ask.body)
        return super().__call__(ask)


# --- rules ----------------------------------------------------------------------------------------------

names = st.sampled_from(["pinned", "summary", "working_set", "a/b.md", "notes.md"])
targets = st.lists(st.sampled_from(TARGETS), max_size=8)


@given(st.dictionaries(names, targets), names, names, st.none() | targets)
def test_targets_must_be_named_by_rules_and_item(rules: Any, kind: str, source: str, own: Any) -> None:
    seen = seen_by(rules, kind, source, own)
    named = rules.get(source, rules.get(kind))
    for target in seen:
        assert own is None or target in own
        assert named is None or target in named
    if named is None and own is None:
        assert seen == MODEL_ONLY


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"pinned": ["martian"]}, "martian"),
        ({"pinned": "tool"}, "list of targets"),
        ({"pined": ["tool"]}, "pinned"),
        ({"request": ["tool"]}, "must name the model"),
        ({"memory": []}, "must name the model"),
        (["pinned"], "mapping"),
    ],
)
def test_invalid_rules_raise_settings_errors(rules: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        ctxwrap.Settings(visibility=rules)


# --- files ----------------------------------------------------------------------------------------------


def test_file_for_a_tool_is_not_sent_and_not_missing(provider: Provider, store: MemoryStore, tmp_path: Path) -> None:
    heard = Listening()
    chat = Chat(provider, store, working_set=manifest(tmp_path, visibility="tool"), strict=True)
    turn = ctxwrap.turn_of(chat.say("Open it.", answer=heard))
    assert turn is not None
    assert "opens at nine" in heard.sent
    assert SECRET not in heard.sent
    (item,) = (item for item in turn.pack if item.source == "key.md")
    assert (item.included, item.visibility) == (False, ("tool",))
    assert item.reason == "it is not for the model to see"


def test_file_with_unknown_targets_is_not_used(provider: Provider, store: MemoryStore, tmp_path: Path) -> None:
    heard = Listening()
    Chat(provider, store, working_set=manifest(tmp_path, visibility="[martian]")).say("Open it.", answer=heard)
    assert SECRET not in heard.sent


def test_caller_can_narrow_a_files_visibility(provider: Provider, store: MemoryStore, tmp_path: Path) -> None:
    heard = Listening()
    files = manifest(tmp_path, visibility="[model, tool]")
    chat = Chat(provider, store, working_set=files, visibility={"key.md": ["tool", "reviewer"]})
    reply = chat.say("Open it.", answer=heard)
    assert SECRET not in heard.sent
    assert [each.text for each in ctxwrap.resources_for("tool", reply)] == [SECRET]
    assert ctxwrap.resources_for("reviewer", reply) == ()


# --- pinned texts and others ----------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_pinned_text_goes_to_its_targets(provider: Provider, store: MemoryStore, target: Any) -> None:
    store.open(KEY).files.save("context/pinned/key.md", SECRET.encode())
    heard = Listening()
    reply = Chat(provider, store, visibility={"pinned": [target]}).say("Open it.", answer=heard)
    assert (SECRET in heard.sent) == (target == "model")
    for other in TARGETS:
        given = [each.text for each in ctxwrap.resources_for(other, reply)]
        assert given == ([SECRET] if other == target != "model" else [])


def test_handed_out_text_is_logged_as_an_injection(provider: Provider, store: MemoryStore) -> None:
    store.open(KEY).files.save("context/pinned/key.md", SECRET.encode())
    call = ToolCall("call-1", "open", "{}")
    chat = Chat(provider, store, visibility={"pinned": ["tool", "evidence_export"]})
    reply = chat.say("Open it.", answer=lambda ask: Answer("Wait.", tool_calls=(call,)))
    (given,) = ctxwrap.resources_for("tool", reply, tool_call_id="call-1")
    assert (given.kind, given.source) == ("pinned", "context/pinned/key.md")
    evidence = envelope_of("s", turn=1, store=store)
    assert list(faults_in(evidence)) == []
    (tool,) = (each for each in evidence.injections if each.target == "tool")
    assert (tool.injection_point, tool.native_id) == ("tool_visible_resource", "call-1")
    assert all(not {*tool.item_refs} & {*each.item_refs} for each in evidence.injections if each.target == "model")
    assert [each.tool_call_id for each in evidence.events if each.data.get("target") == "tool"] == ["call-1"]
    (assembly,) = (each for each in evidence.assemblies if each.assembly_id == tool.assembly_id)
    assert [evidence.contents[block.content_ref or ""] for block in assembly.ordered_blocks] == [SECRET]
    assert SECRET not in envelope_of("s", turn=1, target="reviewer", store=store).as_bytes().decode()


def test_model_only_text_is_not_handed_out(provider: Provider, store: MemoryStore) -> None:
    store.open(KEY).files.save("context/pinned/key.md", SECRET.encode())
    reply = Chat(provider, store).say("Open it.")
    assert [ctxwrap.resources_for(target, reply) for target in TARGETS] == [()] * len(TARGETS)
    assert ctxwrap.resources_for("tool", object()) == ()
    with pytest.raises(SettingsError, match="martian"):
        ctxwrap.resources_for("martian", reply)  # type: ignore[arg-type]


def test_handed_out_text_is_redacted(provider: Provider, store: MemoryStore) -> None:
    store.open(KEY).files.save("context/pinned/key.md", b"ask ada@example.com")
    settings: dict[str, Any] = {"visibility": {"pinned": ["tool"]}, "redaction": ctxwrap.Redaction()}
    reply = Chat(provider, store, **settings).say("Open it.")
    assert [each.text for each in ctxwrap.resources_for("tool", reply)] == ["ask [redacted:email]"]


def test_purge_removes_handed_out_text(provider: Provider, store: MemoryStore) -> None:
    chat = Chat(provider, store, visibility={"pinned": ["tool"]})
    chat.say(f"The word is {SECRET}.")
    store.open(KEY).files.save("context/pinned/key.md", f"The word is {SECRET}.".encode())
    ctxwrap.resources_for("tool", chat.say("Open it."))
    ctxwrap.purge("s", message=1, store=store)
    log = store.open(KEY)
    kept = [log.files.load(entry.name) or b"" for entry in log.files.entries("raw")]
    assert all(SECRET.encode() not in data for data in kept)


def test_exports_see_only_permitted_items(provider: Provider, store: MemoryStore) -> None:
    Chat(provider, store, visibility={"request": ["model", "reviewer"]}).say("Once upon a time.")
    assert "Once upon a time." in envelope_of("s", turn=1, target="reviewer", store=store).as_bytes().decode()
    assert "Once upon a time." not in envelope_of("s", turn=1, store=store).as_bytes().decode()


def test_streams_and_async_calls_hand_out_the_same(provider: Provider, store: MemoryStore) -> None:
    store.open(KEY).files.save("context/pinned/key.md", SECRET.encode())
    client = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    chat: Any = ctxwrap.wrap(client, store=store, session="s", visibility={"pinned": ["tool"]})
    stream = chat.chat.completions.create(
        model="practice", messages=[{"role": "user", "content": "Open it."}], stream=True
    )
    for _ in stream:
        pass
    assert [each.text for each in ctxwrap.resources_for("tool", stream)] == [SECRET]
