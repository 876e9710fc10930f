"""The files that show a turn's pack: what they hold, and that a long log makes them no dearer."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.pack.builder import PackSources
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.session.abi import pack_issues
from ctxwrap.session.pack_view import PACK_JSON, PackBlock, PackView, save_pack
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores.base import Log
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import as_record
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.turn.turn import Turn
from ctxwrap.types import Message, PackItem, Record, SessionKey
from tests.support import PassingLog

KEY = SessionKey("t", "a", "s")
NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)
SECRET = "The lighthouse keeper is called Ottilie."
QUESTION = "Who is the keeper of the lighthouse?"


class Watched(PassingLog):
    """A log that tells which stretches of it are read."""

    def __init__(self, inner: Log) -> None:
        super().__init__(inner)
        self.stretches: list[tuple[int, int]] = []

    def between(self, stream: str, first: int, last: int) -> Sequence[Record]:
        self.stretches.append((first, last))
        return self.inner.between(stream, first, last)


def ask(session: Session) -> None:
    """One turn whose answer says nothing."""
    settings = Settings(history_tokens=500)
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": QUESTION}],
    }
    with session.locked():
        opening = session.open_turn(CHAT.read(body), NOW)
        turn = Turn(
            "turn-1",
            KEY,
            CHAT,
            body,
            CHAT.read(body),
            "enabled",
            opening,
            settings,
            PackSources(None, session.retrieve),
        )
        session.append(turn.id, *turn.opening_records(session.packs.keep(turn.texts)), NOW, part="o")
    turn.reader.whole(
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hm."}, "finish_reason": "stop"}]}
    )
    with session.locked():
        session.append(turn.id, *turn.closing_records(session.memory, session.next_message), NOW, part="c")


def said(numbered: bool) -> list[Record]:
    texts = [SECRET, *(f"Bread number {number} was fine, and so was the tea with it." for number in range(399))]
    roles = ("user", "assistant")
    return [
        as_record(
            Message(roles[at % 2], text), id=f"m-{at}", round=1 + at // 2, **({"seq": at + 1} if numbered else {})
        )  # type: ignore[arg-type]
        for at, text in enumerate(texts)
    ]


def test_old_retrieved_message_is_shown_without_reading_its_neighbours(tmp_path: Path) -> None:
    log = Watched(FileStore(tmp_path).open(KEY))
    with log.locked():
        for record in said(numbered=True):
            log.append({"messages": [record]})
    ask(Session(KEY, log))  # type: ignore[arg-type]
    context = next(tmp_path.rglob("messages.jsonl")).parent / "context"
    assert SECRET in (context / "pack.md").read_text()
    assert log.stretches == []
    text = (context / "pack.json").read_text()
    assert pack_issues(text) == ()
    told = json.loads(text)
    assert any(each["kind"] == "retrieved" for each in told["items"])
    assert text.count("\n") >= len(told["items"]) + len(told["blocks"])


def test_pack_of_an_unnumbered_log_is_shown(tmp_path: Path) -> None:
    log = FileStore(tmp_path).open(KEY)
    with log.locked():
        log.append({"messages": said(numbered=False)})
        log.append({"messages": [as_record(Message("system", "Be kind."), id="m-s", turn="turn-0")]})
    ask(Session(KEY, log))
    context = next(tmp_path.rglob("messages.jsonl")).parent / "context"
    assert "Be kind." in (context / "pack.md").read_text()


TEXTS = st.text(max_size=5) | st.sampled_from([', {"kind": ', "}, {", '\\", {"name": ', "\n", '"'])


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS, st.booleans()), max_size=4), TEXTS)
def test_each_item_of_a_pack_has_a_line(items: list[tuple[str, str, str, bool]], source: str) -> None:
    listed = [PackItem("file", path, 7, included, reason, refs=(ref,)) for path, reason, ref, included in items]
    blocks = [PackBlock("state", "user", source, "text", 3), PackBlock("found", "user", source, "text", 4)]
    view = PackView("t", "s", "a", 1, "", "m", "enabled", tuple(listed), {}, tuple(blocks))
    log = MemoryStore().open(KEY)
    with log.locked():
        save_pack(view, log.files)
    written = (log.files.load(PACK_JSON) or b"").decode()
    assert json.loads(written) == json.loads(json.dumps(view.as_json()))
    shown = [line.removesuffix(",") for line in written.split("\n") if line.startswith("{") and len(line) > 1]
    told = json.loads(written)
    assert list(map(json.loads, shown)) == [*told["items"], *told["left_out"], *told["blocks"]]
