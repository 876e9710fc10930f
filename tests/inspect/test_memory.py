"""What a session remembered, and when: in any round, over all rounds, in the terminal and as a plot."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from openai import OpenAI

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.cli.memory import plotted
from ctxwrap.errors import NotFound
from ctxwrap.inspect import Curve, Point, curves_of, details_of, memory_at, memory_of
from ctxwrap.memory.items import LOCATIONS, TIERS, MemoryItem
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from ctxwrap.types import Operation, SessionKey

KEY = SessionKey("default", "default", "ada")
HOSTILE = "\x1b[2J</title><script>alert(1)</script> & \"q\" 'a' \x00\x9b\ud800\ufffe\u202e ]]>\ncore\n  forged\x7f"
SVG = "{http://www.w3.org/2000/svg}"
SAID = {
    1: "My name is Ada.",
    2: "For now, keep it short.",
    4: "I need to water the plants.",
    6: "My name is Ada.",
    8: "I like tea.",
    12: "I finished it.",
}
ROUNDS = 25


class Chat(list[dict[str, Any]]):
    """What `memory_of` said after each round of a chat, and where that chat is."""

    home: Path
    store: FileStore


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    """A chat with a checkpoint."""
    chat = Chat()
    chat.home = tmp_path_factory.mktemp("home")
    chat.store = FileStore(chat.home)
    with (
        pytest.MonkeyPatch.context() as patch,
        Provider() as provider,
        OpenAI(api_key="x", base_url=provider.openai_url) as client,
    ):
        patch.setattr("ctxwrap.session.session._CHECKPOINT_EVERY", 64)
        wrapped: Any = ctxwrap.wrap(client, store=chat.store, session="ada")
        for number in range(1, ROUNDS + 1):
            messages = [{"role": "user", "content": SAID.get(number, "Hello!")}]
            wrapped.chat.completions.create(model="practice", messages=messages)
            chat.append(memory_of(chat.store, KEY))
        ctxwrap.flush()
        yield chat


def item(id: str, content: str, tier: Any = "core", *, round: int = 1, **rest: Any) -> MemoryItem:
    whole = {"decay": 0.1, "anchor": round, "first": round, "last": round, **rest}
    return MemoryItem.from_json({"id": id, "type": "fact", "content": content, "tags": (), "tier": tier, **whole})


def start(round: int) -> dict[str, Any]:
    return {"type": "start", "runtime": {"round": round, "datetime": "", "startup_at": ""}, "ctx": {"v": 1}}


def kept(round: int, *items: MemoryItem, kind: Any = "add") -> dict[str, Any]:
    operations = [Operation(kind, item.id, item.tier, item.as_json())._asdict() for item in items]
    return {"type": "snapshot", "round": round, "operations": operations, "ctx": {"v": 1}}


def written(store: Store, *events: dict[str, Any], key: SessionKey = KEY) -> Store:
    log = store.open(key)
    with log.locked():
        log.append({"events": events})
    return store


def command(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["memory", "--store", str(home), *arguments])


def files(home: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")}


def placed(state: dict[str, Any]) -> dict[str, tuple[str, float]]:
    return {item["id"]: (tier, item["decay"]) for tier in TIERS for item in state["memory"][tier]}


def drawn(svg: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("class") == "curve"]


def test_memory_at_a_round_equals_the_memory_of_that_time(chat: Chat) -> None:
    assert [memory_at(chat.store, KEY, number) for number in range(1, ROUNDS + 1)] == chat
    assert placed(chat[1])["hint-1"] == ("ephemeral", 0.8)
    assert "hint-1" not in placed(chat[-1])
    assert (chat.home / "home/default/agent/default/session/ada/.checkpoint").exists()


def test_score_curves_cover_every_round_and_swap(chat: Chat) -> None:
    curves = {curve.id: curve for curve in curves_of(chat.store, KEY)}
    assert set(curves) == {"core-name", "hint-1", "task-1", "pref-1"}
    for number, state in enumerate(chat, 1):
        points = {id: point for id, curve in curves.items() for point in curve.points if point.round == number}
        assert placed(state) == {id: point[1:] for id, point in points.items() if point.place != "swap"}
    hint = curves["hint-1"]
    assert [point.round for point in hint.points] == list(range(2, ROUNDS + 1))
    assert list(dict.fromkeys(point.place for point in hint.points)) == ["ephemeral", "swap"]
    assert hint.content == "For now: keep it short."


def test_memory_inspection_changes_nothing(chat: Chat) -> None:
    before = files(chat.home)
    memory_at(chat.store, KEY, 3)
    curves_of(chat.store, KEY)
    details_of(chat.store, KEY)
    assert command(chat.home, "ada", "--at", "3").exit_code == 0
    assert command(chat.home, "nobody").exit_code == 1
    assert files(chat.home) == before


def test_overlapping_rounds_are_replayed_in_log_order() -> None:
    first, second, late = item("a", "one"), item("a", "two", round=2, decay=0.2), item("a", "three", round=2, decay=0.3)
    other = item("b", "other", round=2)
    events = (start(1), kept(1, first), start(2), kept(2, second, other), kept(1, late), start(3))
    store = written(MemoryStore(), *events)
    curves = {curve.id: curve for curve in curves_of(store, KEY)}
    for number in (1, 2, 3):
        points = {id: point[1:] for id, curve in curves.items() for point in curve.points if point.round == number}
        assert points == placed(memory_at(store, KEY, number))
    assert [len(curves["a"].points), len(curves["b"].points)] == [3, 2]
    assert curves["a"].content == "three"
    assert memory_at(store, KEY, 3) == memory_of(store, KEY)


def test_rounds_without_a_call_are_counted() -> None:
    store = written(MemoryStore(), start(3), kept(3, item("hint", "soon gone", "ephemeral", round=3)), start(40))
    assert placed(memory_at(store, KEY, 1)) == {}
    assert placed(memory_at(store, KEY, 11)) == {"hint": ("ephemeral", 0.55)}
    (curve,) = curves_of(store, KEY)
    assert [point.round for point in curve.points] == list(range(3, 41))
    assert curve.points[-1].place == "swap"


def test_curve_of_a_forgotten_item_ends_at_the_forget() -> None:
    fact = item("a", "one")
    store = written(MemoryStore(), start(1), kept(1, fact), start(2), start(3), kept(3, fact, kind="forget"), start(4))
    (curve,) = curves_of(store, KEY)
    assert [point.round for point in curve.points] == [1, 2]
    assert placed(memory_at(store, KEY, 3)) == {}


@pytest.mark.parametrize("ask", [details_of, curves_of, lambda store, key: memory_at(store, key, 1)])
def test_memory_inspection_does_not_create_a_missing_session(ask: Any, home: Path) -> None:
    for store in (MemoryStore(), FileStore(home)):
        with pytest.raises(NotFound, match="no session 'ada' of tenant 'default' and agent 'default'"):
            ask(store, KEY)
        assert list(store.sessions("default", "default")) == []
    assert not home.exists()


@pytest.mark.parametrize("round", [-1, 0, ROUNDS + 1])
def test_missing_round_is_a_one_line_error(chat: Chat, round: int) -> None:
    with pytest.raises(NotFound, match=f"no round {round}: it has rounds 1 to {ROUNDS}"):
        memory_at(chat.store, KEY, round)
    result = command(chat.home, "ada", "--at", str(round))
    assert (result.exit_code, result.output.startswith("Error: session 'ada' has no round")) == (1, True)


def test_memory_command_lists_items_by_tier(chat: Chat) -> None:
    result = command(chat.home, "ada")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == f"session 'ada' at the end of round {ROUNDS}"
    assert lines[1].split() == ["id", "strength", "decay", "round", "touches", "origin", "content"]
    assert [line for line in lines if line in TIERS] == list(TIERS)
    name = placed(chat[-1])["core-name"][1]
    row = next(line for line in lines if "core-name" in line)
    id, bar, *rest = row.split(maxsplit=6)
    assert [id, *rest] == ["core-name", f"{name:.2f}", "6", "2", "user", "The user's name is Ada."]
    assert bar.count("█") == round(10 * (1 - name))
    assert lines.index("core") < lines.index(row) < lines.index("working")
    assert lines[-1].startswith("in swap: 2 ")


def test_memory_command_lists_items_at_a_round(chat: Chat) -> None:
    output = command(chat.home, "ada", "--at", "4").output
    assert "at the end of round 4" in output
    assert "hint-1" in output
    assert "in swap: 0\nactive task: Water the plants.\n" in output
    assert "pref-1" not in output


@pytest.mark.parametrize("round", [1, 2, 9, 10, 11, 12, 13, ROUNDS])
def test_json_output_has_all_items_and_swap(chat: Chat, round: int) -> None:
    details = json.loads(command(chat.home, "ada", "--json", "--at", str(round)).stdout)
    then = chat[round - 1]
    assert details["round"] == round
    assert details["active_task"] == then["active_task"]
    for tier in TIERS:
        plain = [{name: item[name] for name in shown} for item, shown in _pairs(details, then, tier)]
        assert plain == then["memory"][tier]
    assert {item["id"] for item in details["swap"]} == _swapped(chat, round)
    assert all(item["origin"] == "user" and item["touches"] >= 1 for tier in TIERS for item in details["memory"][tier])


def _pairs(details: dict[str, Any], then: dict[str, Any], tier: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    return zip(details["memory"][tier], then["memory"][tier], strict=True)


def _swapped(chat: Chat, round: int) -> set[str]:
    curves = curves_of(chat.store, KEY)
    return {curve.id for curve in curves for point in curve.points if point[:2] == (round, "swap")}


def test_json_output_without_a_round_is_the_newest_round(chat: Chat) -> None:
    newest = command(chat.home, "ada", "--json", "--at", str(ROUNDS))
    assert command(chat.home, "ada", "--json").stdout == newest.stdout != ""


def test_the_plot_has_one_curve_for_each_item(chat: Chat, tmp_path: Path) -> None:
    result = command(chat.home, "ada", "--json", "--plot", str(tmp_path / "memory.svg"))
    assert result.exit_code == 0
    assert json.loads(result.stdout)["round"] == ROUNDS
    assert str(tmp_path / "memory.svg") in result.stderr
    svg = (tmp_path / "memory.svg").read_text(encoding="utf-8")
    titles = [group.findtext(f"{SVG}title") for group in drawn(svg)]
    assert titles == [f"{curve.id}: {curve.content}" for curve in curves_of(chat.store, KEY)]
    texts = ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert {"round", "strength", *LOCATIONS} <= set(texts)
    assert command(chat.home, "ada", "--plot", str(tmp_path / "again.svg")).exit_code == 0
    assert (tmp_path / "again.svg").read_text(encoding="utf-8") == svg


def test_curve_colour_changes_with_the_tier_or_swap() -> None:
    points = (Point(1, "core", 0.4), Point(2, "working", 0.6), Point(3, "working", 0.7), Point(4, "swap", 0.9))
    (group,) = drawn(plotted([Curve("a", "one", points)], "t"))
    assert [path.get("class") for path in group.iter(f"{SVG}path")] == ["working", "swap"]
    assert [dot.get("class") for dot in group.iter(f"{SVG}circle")] == ["core", "working", "swap"]


@pytest.mark.parametrize("count", [0, 1, 200])
@pytest.mark.parametrize("newest", [1, 2, 12, 4321])
def test_any_number_of_items_and_rounds_can_be_drawn(count: int, newest: int) -> None:
    points = tuple(Point(number, "core", 0.5) for number in {1, newest})
    svg = plotted([Curve(f"i{number}", "x", points) for number in range(count)], "t")
    assert len(drawn(svg)) == count
    heights = [float(text.get("y", 0)) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert max(heights) <= float(ElementTree.fromstring(svg).get("viewBox", "").split()[3])
    assert ("more" in svg) == (count == 200)


def test_hostile_contents_control_neither_terminal_nor_plot(home: Path, tmp_path: Path) -> None:
    session = f"s{HOSTILE}".replace("\x00", "").replace("\ud800", "")
    key = SessionKey("default", "default", session)
    written(FileStore(home), start(1), kept(1, item(f"id {HOSTILE}", HOSTILE, extra={"touches": HOSTILE})), key=key)
    plot = tmp_path / "hostile.svg"
    listed = command(home, "--plot", str(plot), "--", session)
    asked = command(home, "--json", "--", session)
    refused = command(home, "--", f"{session}?")
    assert [listed.exit_code, asked.exit_code, refused.exit_code] == [0, 0, 1]
    for output in (listed.output, asked.output, refused.output):
        assert not set(output) & set("\x1b\x00\x7f\x9b\ud800\u202e")
    assert "  forged" not in listed.output.splitlines()
    assert json.loads(asked.stdout)["memory"]["core"][0]["content"] == HOSTILE
    svg = plot.read_text(encoding="utf-8")
    (group,) = drawn(svg)
    assert "</title><script>alert(1)</script>" in (group.findtext(f"{SVG}title") or "")
    names = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
    assert names == {"svg", "title", "style", "rect", "text", "tspan", "g", "path", "line", "circle"}
    assert svg.count("http") == 1, "nothing is loaded from elsewhere"


def test_other_tenants_and_agents_have_to_be_named(home: Path) -> None:
    written(FileStore(home), start(1), kept(1, item("a", "theirs")), key=SessionKey("acme", "bot", "ada"))
    assert command(home, "ada").exit_code == 1
    assert "theirs" in command(home, "ada", "--tenant", "acme", "--agent", "bot").output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ada", "--plot", "/nowhere/at/all.svg"], 1, "Error: cannot write '/nowhere/at/all.svg'"),
        (["nobody"], 1, "Error: there is no session 'nobody'"),
        ([""], 1, "Error: a session id must be a text"),
        (["ada", "--tenant", ""], 1, "Error: a tenant id must be a text"),
        (["ada", "--at", "soon"], 2, "--at takes a round or a date"),
        ([], 2, "name either a SESSION"),
    ],
)
def test_invalid_arguments_are_a_one_line_error(chat: Chat, arguments: list[str], code: int, said: str) -> None:
    result = command(chat.home, *arguments)
    assert result.exit_code == code
    assert said in result.output
    assert "Traceback" not in result.output
