"""How much a running chat adds to its log, measured by what is said in it."""

from pathlib import Path

from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Provider
from ctxwrap.testing.practice.requests import Ask
from tests.export.logs import Chat
from tests.support import item, trailer

TURNS = 24
MOST = 6.5
"""Bytes of the log for each that the user or the model wrote."""


def test_log_size_grows_linearly_with_the_messages(provider: Provider, home: Path) -> None:
    chat, said = Chat(provider, FileStore(home)), [0]

    def answer(ask: Ask) -> Answer:
        number = len(said)
        new = [item(f"w-{number}", f"The user is at step {number} of the plan.")] if number % 3 == 0 else []
        text = "It goes on for a while with words that say little. " * 9 + trailer(ask, new)
        said.append(len(text))
        return Answer(text)

    streams = [home / f"home/default/agent/default/session/s/{name}.jsonl" for name in ("messages", "events")]
    sizes = []
    for number in range(TURNS):
        question = f"Question {number} about the garden, the river and the invoice: what do you say to that one?"
        chat.say(question, answer=answer)
        said[-1] += len(question)
        sizes.append(sum(path.stat().st_size for path in streams))
    half = TURNS // 2
    assert sizes[-1] - sizes[half - 1] <= MOST * sum(said[-half:])
