"""A process is killed while an answer streams; the next process recovers the partial answer and continues the session.

`python examples/crash_and_go_on.py DIRECTORY` keeps the session in DIRECTORY. Inspect its files, or run
`ctxwrap show chat --store DIRECTORY`.
"""

import os
import signal
import sys
import tempfile
from multiprocessing import get_context

from openai import OpenAI

import ctxwrap
from ctxwrap.testing.practice import Answer, Ask, PracticeModel, Provider
from ctxwrap.types import SessionKey

LONG = " ".join(f"({number}) and so on," for number in range(1, 400))
model = PracticeModel()


def answers(ask: Ask) -> Answer:
    return Answer(LONG) if "everything" in ask.last_user else model(ask)


def wrapped(url: str, store: str) -> OpenAI:
    return ctxwrap.wrap(OpenAI(api_key="practice", base_url=url), session="chat", store=store, durability="turn")


def dies(url: str, store: str) -> None:
    stream = wrapped(url, store).chat.completions.create(
        model="practice", messages=[{"role": "user", "content": "Tell me everything."}], stream=True
    )
    for number, _ in enumerate(stream):
        if number == 1000:
            os.kill(os.getpid(), signal.SIGKILL)


def asks(client: OpenAI, text: str) -> None:
    reply = client.chat.completions.create(model="practice", messages=[{"role": "user", "content": text}])
    print(f"{text} -> {reply.choices[0].message.content}")


if __name__ == "__main__":
    store = sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp(prefix="ctxwrap-")
    with Provider(answers) as provider:
        asks(wrapped(provider.openai_url, store), "My name is Ada.")
        child = get_context("spawn").Process(target=dies, args=(provider.openai_url, store))
        child.start()
        child.join()
        print(f"the streaming process was killed by {signal.Signals(-(child.exitcode or 0)).name}")
        asks(wrapped(provider.openai_url, store), "What is my name?")

    log = ctxwrap.open_store(store).open(SessionKey("default", "default", "chat"))
    for message in log.read("messages")[0]:
        how = f"  [{message['ctx']['reason']}]" if message["ctx"].get("reason") else ""
        print(f"{message['role']:>9}: {message['content'][:60]}{how}")
    print(f"verify: {len(ctxwrap.verify('chat', store=store).findings)} findings; the session is in {store}")
