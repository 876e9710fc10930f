"""Overhead of a wrapped call: CPU time of wrapped against bare calls, alternating in one run; prints Markdown tables.

    python benchmarks/overhead.py [--part chats --part ways --part sessions --part first --part system --part peers]
                                  [--sdk openai --sdk anthropic --sdk litellm] [--rounds 12] [--sizes 100 10000 100000]
                                  [--quick]

chats     running chats at turns 20, 100 and 200; the caller sends the newest message, the last 20, or all
ways      sync and async, whole and streamed, at turn 20
sessions  sessions of 100, 10 000 and 100 000 messages; the caller sends the newest message
first     fresh processes: wrap() and the first calls, immediately and a second later
system    system calls of a turn and its background work, counted by strace if installed
peers     the same chat with openai-agents, pydantic-ai and LangGraph, as far as they are installed

The provider runs in its own process. `before` is the time until the request leaves. `after` is the time from then on
or, for a stream, from the last chunk with text on; `chunk` is the time per chunk, `caller` the whole call. These are
CPU times of the calling thread. `path` is the CPU time of all threads until the call returns, so it includes the one
that saves the end of a turn, for which the caller waits. `behind` is the work that `ctxwrap.flush()` does at the end of
a row, divided by its calls, and `all` is `path` and `behind`. Values are medians in ms (chunks in µs) with the ratio to
bare in brackets. The model also writes a snapshot in wrapped calls, whose chunks are read in `after`.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from peers import installed_peers
from processes import asked_of_system, start_costs
from session import MOMENT, past

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.language.vocabulary import FORMS
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import SessionKey

TEXT = "Here is an answer of some length. " * 12
WARM = 3
"""Warm-up calls, not counted."""
INDEXED = 400
"""A call indexes at least this many earlier messages; the calls that index a prepared session are not counted."""
LEFT: list[float] = []
"""CPU time of the calling thread when each request left."""

Messages = list[dict[str, str]]


def answer(ask: Ask) -> Answer:
    """An answer with a snapshot that changes from turn to turn."""
    turn = ask.last_user.partition(":")[0].removeprefix("question ")
    item = {"type": "fact", "decay": 0.1, "round": 1, "tags": ["a"]}
    core = [{"id": f"core-{at}", **item, "content": f"The user prefers thing {at} of a list."} for at in range(1, 9)]
    working = [{"id": "working-1", **item, "type": "task", "decay": 0.3, "content": f"The user is at step {turn}."}]
    memory = {"core": core, "working": working, "ephemeral": []}
    state = {"version": "2.2", "runtime": {}, "memory": memory, "capabilities": [], "active_task": f"step {turn}"}
    return Answer(TEXT + (f"\n\n{SEPARATOR}\n{json.dumps(state)}" if asks_for_trailer(ask.system) else ""))


def serve(pipe: Connection) -> None:
    with Provider(answer, record=False) as provider:
        pipe.send(provider.url)
        pipe.recv()


WORDS = sorted(set(FORMS.split()))


def question(turn: int) -> dict[str, str]:
    """A question that shares words with a few others, so that the search finds earlier messages."""
    things = random.Random(turn).sample(WORDS, 12)
    return {"role": "user", "content": f"question {turn}: what of the {' and the '.join(things)}, as we said before?"}


REPLY = {"role": "assistant", "content": TEXT.strip()}


def leaves(*_: Any) -> None:
    LEFT.append(time.thread_time())


async def leaves_async(*_: Any) -> None:
    leaves()


def client_of(sdk: str, url: str, *, is_async: bool) -> Any:
    """A client of one of the two SDKs that records when its requests leave."""
    module, kind = import_module(sdk), "Async" if is_async else ""
    http = getattr(module, f"Default{kind}HttpxClient")(event_hooks={"request": [leaves_async if is_async else leaves]})
    name, base = ("OpenAI", f"{url}/v1") if sdk == "openai" else ("Anthropic", url)
    return getattr(module, kind + name)(api_key="x", base_url=base, http_client=http)


class Sdk:
    """Bare and wrapped calls of an SDK, sync or async."""

    def __init__(self, name: str, url: str, home: str, *, is_async: bool = False) -> None:
        self.name = name
        self._loop = asyncio.Runner() if is_async else None
        self._own = client_of("anthropic" if name == "anthropic" else "openai", url, is_async=is_async)
        self._bare = load_litellm() if name == "litellm" else self._own
        self._wrapped = ctxwrap.wrap(self._bare, store=home)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()

    def call(self, messages: Messages, *, stream: bool = False, session: str | None = None) -> "Spent":
        client, extra = (self._wrapped, {"session": session}) if session else (self._bare, {})
        return timed(lambda: self._asked(client, messages, stream=stream, **extra), self._loop)

    def _asked(self, client: Any, messages: Messages, **extra: Any) -> Any:
        if self.name == "openai":
            return client.chat.completions.create(model="m", messages=messages, **extra)
        if self.name == "anthropic":
            return client.messages.create(model="m", max_tokens=500, messages=messages, **extra)
        ask = client.acompletion if self._loop else client.completion
        return ask("openai/m", messages, client=self._own, **extra)


class Spent(NamedTuple):
    """CPU seconds of one call; the fields are explained in the module's docstring."""

    before: float
    chunk: float
    after: float
    caller: float
    path: float
    behind: float = 0.0

    @property
    def all(self) -> float:
        return self.path + self.behind


def timed(call: Callable[[], Any], loop: asyncio.Runner | None) -> Spent:
    LEFT.clear()
    texts: list[float] = []
    begun, start = time.process_time(), time.thread_time()
    if loop is None:
        result = call()
        if hasattr(result, "__next__"):
            texts.extend(time.thread_time() for chunk in result if has_text(chunk))
    else:
        loop.run(read(call(), texts))
    end, ended = time.thread_time(), time.process_time()
    each = (texts[-1] - texts[0]) / (len(texts) - 1) if len(texts) > 1 else 0.0
    left = LEFT[0] if LEFT else end
    return Spent(left - start, each, end - (texts[-1] if texts else left), end - start, ended - begun)


async def read(asked: Any, texts: list[float]) -> None:
    result = await asked
    if hasattr(result, "__aiter__"):
        texts.extend([time.thread_time() async for chunk in result if has_text(chunk)])


def has_text(chunk: Any) -> bool:
    choices = getattr(chunk, "choices", None)
    return bool(choices[0].delta.content) if choices else getattr(chunk, "type", "") == "content_block_delta"


COLUMNS = ("before", "chunk", "after", "caller", "path", "behind", "all")


def head(*names: str) -> None:
    print(f"\n| {' | '.join(names)} |\n|{' --- |' * len(names)}")


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def compared(label: Sequence[str], bare: list[Spent], wrapped: list[Spent]) -> None:
    cells = [*label, f"{1e3 * statistics.median(spent.all for spent in bare):.1f}"]
    for name in COLUMNS:
        theirs, ours = (statistics.median(getattr(spent, name) for spent in some) for some in (bare, wrapped))
        shown = f"{1e6 * ours:.0f}" if name == "chunk" else f"{1e3 * ours:.1f}"
        ratio = f" ({ours / theirs:.2f})" if theirs and name != "behind" else ""
        cells.append(shown + ratio if ours else "")
    row(*cells)


def in_turns(sdk: Sdk, session: str, sent: Callable[[], Messages], rounds: int, **how: Any) -> tuple[list[Spent], ...]:
    """Alternate bare and wrapped calls."""
    bare, wrapped = [], []
    for at in range(WARM + rounds):
        messages = sent()
        if at == WARM:
            ctxwrap.flush()
        theirs, ours = sdk.call(messages, **how), sdk.call(messages, session=session, **how)
        if at >= WARM:
            bare.append(theirs)
            wrapped.append(ours)
    start = time.process_time()
    ctxwrap.flush()
    behind = (time.process_time() - start) / rounds
    return bare, [each._replace(behind=behind) for each in wrapped]


class Chat:
    """A caller who keeps the history and sends its newest part."""

    def __init__(self, newest: int | None) -> None:
        self.said: Messages = []
        self.newest = newest

    @property
    def turn(self) -> int:
        return len(self.said) // 2

    def sent(self) -> Messages:
        self.said += [REPLY] if self.said else []
        self.said.append(question(self.turn + 1))
        return self.said[-self.newest :] if self.newest else list(self.said)


def chats(options: argparse.Namespace, url: str, home: str) -> None:
    head("running chat", "the caller sends", "turn", "bare", *COLUMNS)
    for name in options.sdk:
        sdk = Sdk(name, url, home)
        senders = {"the newest message": 1, "the last 20": 20, "all": None}
        for sends, newest in senders.items() if name == "openai" else (("all", None),):
            chat = Chat(newest)
            for turn in options.turns:
                while chat.turn < turn - WARM:
                    sdk.call(chat.sent(), session=f"{name} {sends}")
                compared((name, sends, str(turn)), *in_turns(sdk, f"{name} {sends}", chat.sent, options.rounds))


def ways(options: argparse.Namespace, url: str, home: str) -> None:
    head("way", "streamed", "bare", *COLUMNS)
    for name in options.sdk:
        for is_async in (False, True):
            sdk = Sdk(name, url, home, is_async=is_async)
            for stream in (False, True):
                chat, session = Chat(1), f"{name} {is_async} {stream}"
                while chat.turn < 20 - WARM:
                    sdk.call(chat.sent(), session=session)
                label = f"{name}, {'async' if is_async else 'sync'}", "yes" if stream else "no"
                compared(label, *in_turns(sdk, session, chat.sent, options.rounds, stream=stream))
            sdk.close()


def sessions(options: argparse.Namespace, url: str, home: str) -> None:
    head("session of", "bare", *COLUMNS)
    sdk = Sdk("openai", url, home)
    for size in options.sizes:
        log = FileStore(home).open(SessionKey("default", "default", f"size {size}"))
        with log.locked():
            for turn, (messages, events) in enumerate(past(size // 2)):
                for records in (messages, events):
                    for at, record in enumerate(records, turn * len(records) + 1):
                        record["ctx"].update(v=1, seq=at, turn=f"019{turn:018x}", time=MOMENT)
                log.append(
                    {"messages": messages, "events": events}
                )  # one append per turn, since an append is read as a whole
        for at in range(size // INDEXED + 1):
            sdk.call([question(at)], session=f"size {size}")
        compared((f"{size} messages",), *in_turns(sdk, f"size {size}", Chat(1).sent, options.rounds))


def first(options: argparse.Namespace, url: str, home: str) -> None:
    """Calls right after `wrap()`, and a second later, when the tokenizer is loaded."""
    head("fresh process, gpt-4o", "CPU of", "wrap()", "first call", "second", "third")
    for kind, pause in (("bare", 0), ("wrapped", 0), ("wrapped", 1)):
        runs = start_costs(url, home, kind, pause, options.processes)
        label = f"{kind}, a second after wrap()" if pause else kind
        for at, whose in enumerate(("the calling thread", "the process")):
            steps = zip(*([spent[at] for spent in run] for run in runs), strict=True)
            medians = [f"{1e3 * statistics.median(step):.0f}" for step in steps]
            row(label, whose, *([""] if kind == "bare" else []), *medians)


def system(options: argparse.Namespace, url: str, home: str) -> None:
    counter = "strace" if shutil.which("strace") else "Python and /proc/self/io: calls are reads and writes"
    head(
        f"per turn, counted by {counter}", "system calls without waits", "opens", "fsyncs", "bytes written to the store"
    )
    for kind in ("bare", "wrapped"):
        row(kind, *(f"{count:.1f}" for count in asked_of_system(url, home, kind)))


def peers(options: argparse.Namespace, url: str, home: str) -> None:
    """Async calls with the newest message; each peer keeps the history in its own way and sends the last 20."""
    head("async, the newest message, at turn", *map(str, options.turns))
    sdk, chat = Sdk("openai", url, home, is_async=True), Chat(1)
    bare, ours = [], []
    for turn in options.turns:
        while chat.turn < turn - WARM:
            sdk.call(chat.sent(), session="peers")
        measured = in_turns(sdk, "peers", chat.sent, options.rounds)
        for medians, spent in zip((bare, ours), measured, strict=True):
            medians.append(statistics.median(each.all for each in spent))
    sdk.close()
    rows = {"bare": bare, "ctxwrap": ours}
    turns = range(max(options.turns) + options.rounds)
    with asyncio.Runner() as loop:
        for name, ask in installed_peers(client_of("openai", url, is_async=True), home):
            spent = [timed(partial(ask, question(turn)["content"]), loop).all for turn in turns]
            rows[name] = [statistics.median(spent[turn : turn + options.rounds]) for turn in options.turns]
    for name, medians in rows.items():
        row(name, *(f"{1e3 * each:.1f} ({each / least:.2f})" for each, least in zip(medians, bare, strict=True)))


PARTS = {"chats": chats, "ways": ways, "sessions": sessions, "first": first, "system": system, "peers": peers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="a table to print; default: all")
    parser.add_argument("--sdk", action="append", choices=("openai", "anthropic", "litellm"))
    parser.add_argument("--rounds", type=int, default=12, help="number of measured calls of each kind")
    parser.add_argument("--sizes", type=int, nargs="+", default=(100, 10_000, 100_000))
    parser.add_argument("--turns", type=int, nargs="+", default=(20, 100, 200))
    parser.add_argument("--processes", type=int, default=5, help="number of fresh processes of each kind")
    parser.add_argument("--quick", action="store_true", help="only OpenAI's client, short chats, few rounds")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.turns, options.sizes, options.processes = 6, (20,), (100, 1000), 2
    options.sdk = options.sdk or (["openai"] if options.quick else ["openai", "anthropic", "litellm"])
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = here.recv()
    with tempfile.TemporaryDirectory() as home:
        for part in options.part or PARTS:
            place = Path(home, part)
            place.mkdir()
            PARTS[part](options, url, str(place))
    here.send("done")
    server.join(timeout=5)


if __name__ == "__main__":
    main()
