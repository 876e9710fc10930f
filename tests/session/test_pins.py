"""Pinned items: the operator keeps them, whatever a model does and however long ago they were used."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from click.testing import CliRunner, Result

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.errors import NotFound
from ctxwrap.inspect import details_of, memory_at
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer
from ctxwrap.session.lookup import key_for
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from tests.support import events, item, state_shown

KEY = key_for("s")


class Chat:
    """A session whose model writes what a test says."""

    def __init__(self, provider: Provider, home: Path) -> None:
        self.provider, self.home = provider, home
        self.restart()

    def restart(self, **settings: Any) -> None:
        bare = openai.OpenAI(api_key="k", base_url=self.provider.openai_url)
        self.client = ctxwrap.wrap(bare, store=self.home, session="s", **settings)

    def hear(self, said: str = "Good morning!", *, dropped: Sequence[str] = (), **tiers: list[dict[str, Any]]) -> None:
        def answer(ask: Ask) -> Answer:
            assert asks_for_trailer(ask.system)
            memory = {"core": [], "working": [], "ephemeral": [], **tiers}
            state = {**state_shown(ask), "memory": memory, "dropped": list(dropped)}
            state.pop("unchanged", None)
            return Answer(f"Fine.\n\n{SEPARATOR}\n{json.dumps(state)}")

        self.provider.answer = answer
        self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": said}])

    def places(self) -> dict[str, str]:
        """Where each item lies."""
        told = details_of(FileStore(self.home), KEY)
        tiers = {**told["memory"], "swap": told["swap"]}
        return {each["id"]: tier for tier, items in tiers.items() for each in items}

    def item(self, id: str) -> dict[str, Any]:
        told = details_of(FileStore(self.home), KEY)
        everything = (each for items in (*told["memory"].values(), told["swap"]) for each in items)
        return next(each for each in everything if each["id"] == id)


@pytest.fixture
def chat(provider: Provider, home: Path) -> Chat:
    chat = Chat(provider, home)
    chat.hear(core=[item("c-1", "The user sails.")], ephemeral=[item("e-1", "The printer is on fire.")])
    return chat


def command(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["memory", "s", "--store", str(home), *arguments])


def test_pinned_item_cannot_be_dropped(chat: Chat) -> None:
    ctxwrap.pin("s", "c-1", store=chat.home)
    chat.hear(dropped=["c-1", "e-1"])
    assert chat.places() == {"c-1": "core", "e-1": "swap"}
    ctxwrap.unpin("s", "c-1", store=chat.home)
    chat.hear(dropped=["c-1"])
    assert chat.places() == {"c-1": "swap", "e-1": "swap"}


@pytest.mark.parametrize("snapshot", ["delta", "full"])
def test_pinned_item_keeps_its_tier_when_omitted_or_moved(chat: Chat, snapshot: str) -> None:
    chat.hear(working=[item(f"w-{at}", f"Boat number {at} leaks.") for at in range(6)])
    ctxwrap.pin("s", "e-1", store=chat.home)
    ctxwrap.pin("s", "c-1", store=chat.home)
    chat.restart(snapshot=snapshot)
    chat.hear(working=[item(f"w-{at}", f"Boat number {at} leaks.") for at in range(6)])
    chat.hear(ephemeral=[item("c-1", "The user sails.")])
    assert chat.places()["e-1"] == "ephemeral"
    assert chat.places()["c-1"] == "core"


def test_pinned_item_does_not_decay(chat: Chat) -> None:
    ctxwrap.pin("s", "e-1", store=chat.home)
    chat.hear(ephemeral=[item("e-2", "The window is open.")])
    decay = chat.item("e-1")["decay"]
    for _ in range(30):
        chat.hear()
    assert chat.places() == {"c-1": "core", "e-1": "ephemeral", "e-2": "swap"}
    assert chat.item("e-1")["decay"] == decay
    ctxwrap.unpin("s", "e-1", store=chat.home)
    assert chat.places()["e-1"] == "ephemeral", "it ages from now on, not from when it was last used"
    for _ in range(30):
        chat.hear()
    assert chat.places()["e-1"] == "swap"


def test_pins_are_recorded_in_the_log(chat: Chat) -> None:
    """A process that opens the session anew, with nothing but its log, keeps the item as well."""
    ctxwrap.pin("s", "e-1", store=chat.home)
    assert [event["type"] for event in events(chat.home, "s")][-1] == "pin"
    for checkpoint in chat.home.rglob(".checkpoint"):
        checkpoint.unlink()
    chat.restart()
    chat.hear(dropped=["e-1"])
    assert chat.item("e-1")["pinned"]
    assert chat.places()["e-1"] == "ephemeral"
    assert ctxwrap.verify("s", store=chat.home).findings == ()


def test_open_client_sees_a_new_pin(chat: Chat) -> None:
    chat.hear()
    ctxwrap.pin("s", "c-1", store=chat.home)
    chat.hear(dropped=["c-1"])
    assert chat.places()["c-1"] == "core"


def test_pinning_an_item_in_swap_brings_it_back(chat: Chat) -> None:
    chat.hear(dropped=["e-1"])
    ctxwrap.pin("s", "e-1", store=chat.home)
    assert chat.places()["e-1"] == "ephemeral"


def test_a_model_cannot_pin(chat: Chat) -> None:
    chat.hear(ephemeral=[{**item("e-2", "The window is open."), "pinned": True}])
    assert not chat.item("e-2")["pinned"]
    for _ in range(30):
        chat.hear()
    assert chat.places()["e-2"] == "swap"


def test_newer_value_does_not_replace_a_pinned_item(chat: Chat) -> None:
    chat.hear(core=[item("home-1", "The user lives in Porto.")])
    ctxwrap.pin("s", "home-1", store=chat.home)
    chat.hear("I moved to Lisbon.", core=[item("home-2", "The user lives in Lisbon.")])
    assert chat.places()["home-1"] == "core"
    assert chat.places()["home-2"] == "core"


def test_forgetting_removes_a_pinned_item(chat: Chat) -> None:
    ctxwrap.pin("s", "c-1", store=chat.home)
    ctxwrap.forget("s", item="c-1", store=chat.home)
    assert "c-1" not in chat.places()


def test_pinning_does_not_change_earlier_rounds(chat: Chat) -> None:
    before = memory_at(FileStore(chat.home), KEY, 1)
    chat.hear()
    ctxwrap.pin("s", "e-1", store=chat.home)
    chat.hear()
    assert memory_at(FileStore(chat.home), KEY, 1) == before


def test_pinning_is_idempotent(chat: Chat) -> None:
    for _ in range(2):
        ctxwrap.pin("s", "c-1", store=chat.home)
    assert [event["type"] for event in events(chat.home, "s")].count("pin") == 1


@pytest.mark.parametrize("change", [ctxwrap.pin, ctxwrap.unpin])
def test_unknown_item_id_is_a_one_line_error(chat: Chat, change: Any) -> None:
    with pytest.raises(NotFound, match="session 's' has no memory item 'c-9'"):
        change("s", "c-9", store=chat.home)
    with pytest.raises(NotFound, match="no session 'nobody'"):
        change("nobody", "c-1", store=chat.home)
    with pytest.raises(NotFound, match="no session 's' of tenant 'acme'"):
        change("s", "c-1", store=chat.home, tenant="acme")


def test_pin_command_pins_and_unpins(chat: Chat) -> None:
    pinned = command(chat.home, "--pin", "c-1")
    assert pinned.exit_code == 0, pinned.output
    assert "(pinned) The user sails." in pinned.output
    assert "(pinned) The printer" not in pinned.output
    chat.hear(dropped=["c-1"])
    assert json.loads(command(chat.home, "--json").stdout)["memory"]["core"][0]["pinned"]
    assert "(pinned)" not in command(chat.home, "--unpin", "c-1").output
    chat.hear(dropped=["c-1"])
    assert chat.places()["c-1"] == "swap"


@pytest.mark.parametrize("option", ["--pin", "--unpin"])
def test_pin_command_reports_unknown_ids(chat: Chat, option: str) -> None:
    before = events(chat.home, "s")
    result = command(chat.home, option, "c-9")
    assert (result.exit_code, result.output.startswith("Error: session 's' has no memory item 'c-9'")) == (1, True)
    assert events(chat.home, "s") == before
