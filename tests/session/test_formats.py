"""Sessions that earlier and later versions wrote: they are read, upgraded, or refused in so many words."""

import json
import shutil
from pathlib import Path

import openai
import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.errors import UnknownFormat
from ctxwrap.export.evidence import envelope_of
from ctxwrap.export.evidence.document import require_consistent
from ctxwrap.inspect import pack_of
from ctxwrap.session.lookup import open_existing
from ctxwrap.stores.files.format import FORMAT, upgraded
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Provider
from ctxwrap.types import SessionKey
from tests.support import messages

KEY = SessionKey("default", "default", "s")
WRITTEN = Path(__file__).parent / "formats"
"""One session for each earlier format, as the code of that time wrote it."""


def session_of(format: int, home: Path) -> Path:
    """A session of an earlier format, in a store."""
    directory = home / "home/default/agent/default/session/s"
    shutil.copytree(WRITTEN / str(format), directory)
    return directory


def ask(home: Path, provider: Provider, text: str) -> None:
    client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home, session="s")
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


def said(home: Path) -> list[str]:
    return [kept.message.text for kept in open_existing(KEY, home).state.branch.history(0)]


def damage(home: Path) -> list[str]:
    return [finding.what for finding in ctxwrap.verify("s", store=home).findings if finding.severity == "damage"]


def test_sample_session_exists_for_every_earlier_format() -> None:
    assert sorted(path.name for path in WRITTEN.iterdir()) == [str(format) for format in range(FORMAT)]


@pytest.mark.parametrize("format", range(FORMAT))
def test_session_of_an_earlier_format_continues(format: int, home: Path, provider: Provider) -> None:
    directory = session_of(format, home)
    upgrade = CliRunner().invoke(main, ["upgrade", "s", "--store", str(home)])
    assert upgrade.output == "1 of 1 sessions were upgraded\n"
    assert CliRunner().invoke(main, ["upgrade", "--all", "--store", str(home)]).output.startswith("0 of 1")
    assert said(home) == ["My name is Ada.", "Hello, Ada."]
    assert damage(home) == []
    ask(home, provider, "And yours?")
    assert said(home) == ["My name is Ada.", "Hello, Ada.", "And yours?", "Hello, world."]
    assert damage(home) == []
    assert json.loads((directory / "meta.json").read_text())["format"] == FORMAT


def test_packs_and_events_of_format_2_are_read_unchanged(home: Path) -> None:
    session_of(2, home)
    written = [line for line in (WRITTEN / "2/events.jsonl").read_text().splitlines() if '"context.' in line]
    view = pack_of(FileStore(home), KEY, 1)
    assert [(item.kind, item.tokens) for item in view.items] == [("system", 630), ("memory", 233), ("request", 18)]
    assert (view.budget["fixed"], view.budget["spent"]["memory"]) == (881, 0)
    assert view.notes == ()
    assert [block.name for block in view.blocks] == ["protocol", "message", "state", "reminder"]
    evidence = require_consistent(envelope_of("s", turn=1, store=home))
    assert [each.event_type for each in evidence.events[:-1]] == [json.loads(line)["type"] for line in written]


def test_session_without_a_format_number_gets_one_at_its_first_write(home: Path, provider: Provider) -> None:
    directory = session_of(1, home)
    before = (directory / "meta.json").read_bytes()
    assert FileStore(home).open(KEY).read("messages")[0]
    assert (directory / "meta.json").read_bytes() == before
    ask(home, provider, "And yours?")
    assert json.loads((directory / "meta.json").read_text()) == {**KEY._asdict(), "format": FORMAT}
    assert [message["content"] for message in messages(home, "s")][:2] == ["My name is Ada.", "Hello, Ada."]


@pytest.mark.parametrize(("format", "remedy"), [(0, "ctxwrap upgrade"), (FORMAT + 1, "newer ctxwrap")])
def test_unsupported_format_is_reported_to_the_caller(home: Path, provider: Provider, format: int, remedy: str) -> None:
    directory = session_of(min(format, 1), home)
    if format:
        (directory / "meta.json").write_text(json.dumps({**KEY._asdict(), "format": format}))
    before = {path.name: path.read_bytes() for path in directory.glob("*.json*")}
    with pytest.raises(UnknownFormat, match=remedy):
        ask(home, provider, "Hello?")
    with pytest.raises(UnknownFormat, match=f"has format {format}"):
        FileStore(home).open(KEY).read("messages")
    assert provider.seen == []
    assert {path.name: path.read_bytes() for path in directory.glob("*.json*")} == before


def test_a_newer_session_is_not_upgraded(home: Path) -> None:
    directory = session_of(1, home)
    (directory / "meta.json").write_text(json.dumps({**KEY._asdict(), "format": FORMAT + 1}))
    result = CliRunner().invoke(main, ["upgrade", "--all", "--store", str(home)])
    assert (result.exit_code, "newer ctxwrap" in result.output) == (1, True)


def test_upgrade_does_not_hide_damage(home: Path) -> None:
    directory = session_of(0, home)
    stream = directory / "messages.jsonl"
    stream.write_bytes(stream.read_bytes().replace(b"Hello, Ada.", b"Hello, Eve."))
    CliRunner().invoke(main, ["upgrade", "s", "--store", str(home)])
    assert damage(home) != []
    assert said(home) == ["My name is Ada."]


def test_interrupted_upgrade_can_be_repeated(home: Path) -> None:
    directory = session_of(0, home)
    stream = directory / "messages.jsonl"
    stream.write_bytes(upgraded(stream.read_bytes()))
    assert CliRunner().invoke(main, ["upgrade", "s", "--store", str(home)]).exit_code == 0
    assert said(home) == ["My name is Ada.", "Hello, Ada."]
    assert damage(home) == []
