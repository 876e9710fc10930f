"""Packs over sockets: what the provider got is what the record, the files, the command and the preview say."""

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.errors import NotFound, SettingsError, UnsupportedClient
from ctxwrap.inspect import pack_of
from ctxwrap.pack.injection import INSTRUCTIONS, Instructions, body_hash
from ctxwrap.protocol.instructions import DELTA_TEXT, REMINDER
from ctxwrap.session.abi import pack_issues
from ctxwrap.session.lookup import key_for
from ctxwrap.testing.practice import Answer, Ask, PracticeModel, Provider
from tests.support import Told, item, trailer

HOSTILE = "```\n````\n~~~\n<ctxwrap-context>{}</ctxwrap-context>\n<<<CONTEXT>>>\n| a | b |\n# Heading\n"


@pytest.fixture
def client(provider: Provider, home: Path) -> Any:
    return ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home, session="s")


def ask(client: Any, *said: str, **more: Any) -> Any:
    messages = [{"role": "system", "content": "You are kind."}, *({"role": "user", "content": text} for text in said)]
    return client.chat.completions.create(model="gpt-4o", messages=messages, **more)


def directory(home: Path) -> Path:
    ctxwrap.flush()
    return next(home.rglob("messages.jsonl")).parent


def pin(home: Path, name: str, text: str) -> None:
    (directory(home) / "context" / "pinned").mkdir(exist_ok=True)
    (directory(home) / "context" / "pinned" / name).write_text(text)


def blocks_in(markdown: str) -> list[str]:
    """What stands between the fences of a pack in Markdown."""
    blocks: list[str] = []
    fence, inside = "", list[str]()
    for line in markdown.split("\n"):
        if not fence and line.startswith("```") and not line.strip("`"):
            fence, inside = line, []
        elif fence and line == fence:
            blocks.append("\n".join(inside))
            fence = ""
        elif fence:
            inside.append(line)
    return blocks


def text_sent(body: dict[str, Any]) -> str:
    """All that the model reads, in its order."""
    parts = [body["system"]] if "system" in body else []
    parts += [message["content"] for message in body["messages"]]
    texts = [[{"text": part}] if isinstance(part, str) else part for part in parts]
    return "\n\n".join(block["text"] for part in texts for block in part)


def test_recorded_hash_equals_the_hash_of_the_openai_request(provider: Provider, client: Any, home: Path) -> None:
    for said in ("My name is Ada.", "What is my name?"):
        turn = ctxwrap.turn_of(ask(client, said))
        assert turn is not None
        assert turn.report.sha256 == body_hash(provider.seen[-1].json)
    assert pack_of(ctxwrap.open_store(home), key_for("s")).sha256 == turn.report.sha256


def test_recorded_hash_equals_the_hash_of_the_anthropic_request(provider: Provider, home: Path) -> None:
    bare = anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url)
    client = ctxwrap.wrap(bare, store=home, session="s")
    for said in ("My name is Ada.", "What is my name?"):
        reply = client.messages.create(model="m", max_tokens=50, messages=[{"role": "user", "content": said}])
        turn = ctxwrap.turn_of(reply)
        assert turn is not None
        assert turn.report.sha256 == body_hash(provider.seen[-1].json)


def test_pack_files_show_exactly_what_was_sent(provider: Provider, client: Any, home: Path) -> None:
    ask(client, f"My name is Ada. {HOSTILE}")
    pin(home, "style.md", f"Always be brief. {HOSTILE}")
    ask(client, "What is my name?")
    markdown = (directory(home) / "context" / "pack.md").read_text()
    sent = text_sent(provider.seen[-1].json)
    assert "\n\n".join(blocks_in(markdown)) == sent
    text = (directory(home) / "context" / "pack.json").read_text()
    assert pack_issues(text) == ()
    told = json.loads(text)
    assert {each["source"] for each in told["items"]} >= {"context/pinned/style.md", "messages.jsonl"}
    assert told["budget"]["used"] <= told["budget"]["effective"]


def test_earlier_pack_is_reproduced_exactly(provider: Provider, client: Any, home: Path) -> None:
    ask(client, "My name is Ada.")
    pin(home, "style.md", "Always be brief.")
    for said in ("I like tea.", "I have a cat."):
        ask(client, said)
    sent = [text_sent(request.json) for request in provider.seen]
    pin(home, "style.md", "Never be brief.")
    ask(client, "What do I like?")
    for number, text in enumerate(sent, 1):
        view = pack_of(ctxwrap.open_store(home), key_for("s"), number)
        assert "\n\n".join(block.text for block in view.blocks) == text


def test_earlier_pack_keeps_the_protocol_text_of_its_time(
    provider: Provider, client: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(client, "My name is Ada.")
    monkeypatch.setitem(
        INSTRUCTIONS, "delta", Instructions("<ctxwrap-protocol>\nOther words.\n</ctxwrap-protocol>", "Other end.")
    )
    ask(client, "I like tea.")
    first, second = (text_sent(request.json) for request in provider.seen)
    for number, sent, protocol, reminder in (
        (1, first, DELTA_TEXT, REMINDER),
        (2, second, "<ctxwrap-protocol>\nOther words.\n</ctxwrap-protocol>", "Other end."),
    ):
        view = pack_of(ctxwrap.open_store(home), key_for("s"), number)
        assert "\n\n".join(block.text for block in view.blocks) == sent
        assert (view.blocks[0].text, view.blocks[-1].text) == (protocol, reminder)
        shown = CliRunner().invoke(main, ["pack", "s", "--store", str(home), "--md", "--turn", str(number)])
        assert "\n\n".join(blocks_in(shown.output)) == sent


def test_preview_equals_the_request_sent_next(provider: Provider, client: Any, home: Path) -> None:
    ask(client, "My name is Ada.")
    before = sorted((path, path.read_bytes()) for path in home.rglob("*") if path.is_file())
    messages = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "What is my name?"}]
    view = ctxwrap.preview(client, model="gpt-4o", messages=messages)
    assert sorted((path, path.read_bytes()) for path in home.rglob("*") if path.is_file()) == before
    ask(client, "What is my name?")
    assert without_time(view.body) == without_time(provider.seen[-1].json)
    assert without_time("\n\n".join(block.text for block in view.blocks)) == without_time(
        text_sent(provider.seen[-1].json)
    )
    assert "What is my name?" in view.as_markdown()


def without_time(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return "".join(character for character in text.replace("\\", "") if not character.isdigit())


def test_preview_does_not_create_a_session(provider: Provider, client: Any, home: Path) -> None:
    view = ctxwrap.preview(client, session="new", model="gpt-4o", messages=[{"role": "user", "content": "Hi"}])
    assert [block.name for block in view.blocks] == ["protocol", "message", "state", "reminder"]
    assert list(home.rglob("messages.jsonl")) == []
    assert provider.seen == []


def test_preview_requires_a_wrapped_client_and_a_session(provider: Provider, home: Path) -> None:
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    with pytest.raises(UnsupportedClient, match="wrapped"):
        ctxwrap.preview(bare, model="m", messages=[])
    with pytest.raises(SettingsError, match="session"), pytest.warns(ctxwrap.NoSessionWarning):
        ctxwrap.preview(ctxwrap.wrap(bare, store=home), model="m", messages=[])


def test_pack_command_shows_a_pack(provider: Provider, client: Any, home: Path) -> None:
    ask(client, "My name is Ada.")
    ask(client, "What is my name?")

    def run(*options: str) -> str:
        done = CliRunner().invoke(main, ["pack", "s", "--store", str(home), *options])
        assert done.exit_code == 0, done.output
        return done.output

    assert "left out" not in run()
    assert "recent_messages" in run()
    assert json.loads(run("--json"))["round"] == 2
    assert json.loads(run("--json", "--turn", "1"))["round"] == 1
    assert blocks_in(run("--md"))[-3] == "What is my name?"
    assert "effective" in run("--report")
    missing = CliRunner().invoke(main, ["pack", "nobody", "--store", str(home)])
    assert missing.exit_code != 0
    assert "nobody" in missing.output


def test_session_without_a_pack_raises_not_found(provider: Provider, client: Any, home: Path) -> None:
    ask(client, "Hi", extra_headers={"x-ctxwrap-mode": "disabled"})
    with pytest.raises(NotFound, match="no pack"):
        pack_of(ctxwrap.open_store(home), key_for("s"))


def test_budget_file_of_the_session_sets_the_budget(provider: Provider, client: Any, home: Path) -> None:
    for at in range(6):
        ask(client, f"{at} " + "word " * 200)
    (directory(home) / "context" / "budget").write_text("1500\n")
    turn = ctxwrap.turn_of(ask(client, "And?"))
    assert turn is not None
    assert turn.report.budget["set_by"] == "context/budget"
    assert turn.report.budget["fixed"] + turn.report.budget["used"] <= 1500
    (directory(home) / "context" / "budget").write_text("many\n")
    turn = ctxwrap.turn_of(ask(client, "And now?"))
    assert turn is not None
    assert turn.report.budget["set_by"] == "settings", "one that makes no sense is passed over"


def test_old_fact_is_retrieved_when_the_user_asks_for_it(provider: Provider, client: Any) -> None:
    provider.answer = Told("Noted.")
    ask(client, "The word for the vault is Xanadu-7, by the way.")
    for at in range(60):
        ask(client, f"Let us talk about subject {at}: " + f"bread {at} rivers {at} trains " * 40)
    reply = ask(client, "Which word opens the vault?")
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert "Xanadu-7" in provider.seen[-1].json["messages"][-1]["content"]
    assert not any("Xanadu-7" in message["content"] for message in provider.seen[-1].json["messages"][:-1])
    retrieved = [each for each in turn.pack if each.kind == "retrieved" and each.included]
    assert any("words" in each.reason for each in retrieved)


def speak_of_cats(provider: Provider, client: Any) -> tuple[list[float], set[str]]:
    """Many memories, one more with each round: how much of the later requests was as before, and how they began."""
    provider.answer = PracticeModel()
    shares = []
    for at in range(40):
        turn = ctxwrap.turn_of(ask(client, f"My cat number {at + 10} is called Tom{at + 10}."))
        assert turn is not None
        shares.append(turn.report.stable)
    systems = [request.json["messages"][0]["content"] for request in provider.seen[15:]]
    assert all("<ctxwrap-memory>\n" in system for system in systems)
    return shares[15:], set(systems)


def test_small_requests_keep_a_common_prefix_as_memory_grows(provider: Provider, client: Any) -> None:
    shares, systems = speak_of_cats(provider, client)
    assert min(shares) > 0.5, shares
    assert len(systems) == 1
    assert "Tom10" in ask(client, "What do you know about me?").choices[0].message.content


def test_epochs_keep_the_prefix_of_requests_stable(provider: Provider, home: Path) -> None:
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    client = ctxwrap.wrap(bare, store=home, session="s", budget_messages=0)
    shares, systems = speak_of_cats(provider, client)
    assert sum(share > 0.7 for share in shares) >= 18, shares
    assert len(systems) <= 4
    assert "Tom13" in ask(client, "What do you know about me?").choices[0].message.content


def test_forgotten_fact_is_removed_from_all_packs(provider: Provider, client: Any, home: Path) -> None:
    secret = "The user's number is 4711-XANADU."

    def remembers(request: Ask) -> Answer:
        known = [item("secret", secret), *(item(f"w-{at}", f"Other fact {at} " + "word " * 20) for at in range(30))]
        return Answer("Noted." + trailer(request, known))

    provider.answer = remembers
    ask(client, "Hello.")
    pin(home, "style.md", "Always be brief.")
    for said in ("Remember a number.", "And now?", "And then?"):
        ask(client, said)
    assert any(b"4711-XANADU" in path.read_bytes() for path in directory(home).rglob("pack.md"))
    ctxwrap.forget("s", item="secret", store=home)
    assert not [path for path in directory(home).rglob("*") if path.is_file() and b"4711-XANADU" in path.read_bytes()]
    view = pack_of(ctxwrap.open_store(home), key_for("s"), 3)
    assert view.notes == ("the text of pinned is no longer kept",)
    provider.answer = Told("Fine.")
    ask(client, "What else?")
    assert "4711-XANADU" not in json.dumps(provider.seen[-1].json)
