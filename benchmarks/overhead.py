"""What wrapping a call costs: CPU time wrapped against bare, per SDK, in the same run.

    python benchmarks/overhead.py [--rounds 40] [--sdk openai --sdk anthropic --sdk litellm]

Each row interleaves bare and wrapped calls against a provider in a process of its own, and compares the medians of
the calling thread's CPU time; wall times on a shared machine say little. A wrapped call does everything: align the
caller's messages with the log, append them, assemble, inject, strip, read the trailer, append the answer. The last
column is the share of what is added that `evidence=False` saves.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import ctxwrap
from ctxwrap.practice import Answer, Ask, Provider
from ctxwrap.protocol.text import SEPARATOR, asks_for_trailer

TEXT = "Here is an answer of some length. " * 12
STATE = (
    '{"version":"2.2","runtime":{},"memory":{"core":[{"id":"core-1","type":"fact","decay":0.1,"round":1,"tags":["a"],'
    '"content":"The user prefers short answers."}],"working":[],"ephemeral":[]},"capabilities":[],"active_task":""}'
)


def answer(ask: Ask) -> Answer:
    tail = f"\n\n{SEPARATOR}\n{STATE}" if asks_for_trailer(ask.system) else ""
    return Answer(TEXT + tail)


def serve(pipe: Connection) -> None:
    with Provider(answer, record=False) as provider:
        pipe.send(provider.url)
        pipe.recv()


def conversation(count: int) -> list[dict[str, str]]:
    """`count` messages, the first and the last one the user's, each of the size people really write."""
    answers = {"role": "assistant", "content": TEXT.strip()}
    asked = ({"role": "user", "content": f"question {at}: " + "some words " * 20} for at in range(count))
    return [answers if at % 2 else next(asked) for at in range(count)]


def variants(bare: Any, home: str) -> Iterator[tuple[str, Any]]:
    yield "bare", bare
    yield "silent", ctxwrap.wrap(bare, store=home, evidence=False)
    yield "wrapped", ctxwrap.wrap(bare, store=home)


def openai_calls(url: str, home: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    import openai

    bare = openai.OpenAI(api_key="x", base_url=f"{url}/v1")
    for name, client in variants(bare, home):

        def call(messages: Any, stream: bool, client: Any = client, **extra: Any) -> Any:
            return client.chat.completions.create(model="m", messages=messages, stream=stream, **extra)

        yield name, call


def anthropic_calls(url: str, home: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    import anthropic

    bare = anthropic.Anthropic(api_key="x", base_url=url)
    for name, client in variants(bare, home):

        def call(messages: Any, stream: bool, client: Any = client, **extra: Any) -> Any:
            return client.messages.create(model="m", max_tokens=500, messages=messages, stream=stream, **extra)

        yield name, call


def litellm_calls(url: str, home: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    from ctxwrap.clients.litellm import load_litellm

    bare = load_litellm()
    for name, module in variants(bare, home):

        def call(messages: Any, stream: bool, module: Any = module, **extra: Any) -> Any:
            return module.completion("openai/m", messages, stream=stream, api_base=f"{url}/v1", api_key="x", **extra)

        yield name, call


SDKS = {"openai": openai_calls, "anthropic": anthropic_calls, "litellm": litellm_calls}


def cpu_of(call: Callable[[], Any]) -> float:
    start = time.thread_time()
    result = call()
    if hasattr(result, "__iter__") and hasattr(result, "__next__"):
        for _ in result:
            pass
    return time.thread_time() - start


def measure(calls: dict[str, Callable[..., Any]], count: int, stream: bool, rounds: int) -> dict[str, float]:
    """Median CPU milliseconds of each kind of call, taken in turns."""
    messages = conversation(count)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for at in range(rounds + 5):
        for name, call in calls.items():
            extra: dict[str, Any] = {}
            if name != "bare":
                extra = {"session": f"{name}-{'stream' if stream else 'whole'}-{count}-{at}"}
                # in the middle of a chat, the session already holds what came before
                call(messages[:-2] or [{"role": "user", "content": "Hello"}], False, **extra)
            spent = cpu_of(lambda call=call, extra=extra: call(messages, stream, **extra))
            if at >= 5:
                times[name].append(spent)
    return {name: statistics.median(spent) * 1e3 for name, spent in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--sdk", action="append", choices=sorted(SDKS))
    options = parser.parse_args()
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = here.recv()
    columns = f"{'bare ms':>8} {'wrapped ms':>10} {'added ms':>8} {'ratio':>6} {'evidence':>8}"
    print(f"{'sdk':10} {'messages':>8} {'stream':>6} {columns}")
    with tempfile.TemporaryDirectory() as home:
        for sdk in options.sdk or SDKS:
            calls = dict(SDKS[sdk](url, home))
            for count in (3, 41):
                for stream in (False, True):
                    spent = measure(calls, count, stream, options.rounds)
                    bare, silent, wrapped = spent["bare"], spent["silent"], spent["wrapped"]
                    print(
                        f"{sdk:10} {count:8} {'yes' if stream else 'no':>6} {bare:8.2f} {wrapped:10.2f} "
                        f"{wrapped - bare:8.2f} {wrapped / bare:6.2f} {(wrapped - silent) / (wrapped - bare):8.0%}",
                        flush=True,
                    )
    here.send("done")
    server.join(timeout=5)


if __name__ == "__main__":
    main()
