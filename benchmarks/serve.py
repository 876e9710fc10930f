"""Measure `ctxwrap serve` on loopback: many streams at once, and the CPU time until a stream's first byte.

An upstream of this script's own streams words with pauses; the proxy runs as its command does, with two workers.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

_REST = 0.15
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TRAILER = '\n\n<<<CONTEXT>>>\n{"memory": {"core": [], "working": [], "ephemeral": []}}'


def _chunk(text: str | None) -> bytes:
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop" if text is None else None}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(body)}\n\n".encode()


async def _upstream(words: int, pause: float) -> None:
    """Answer every POST with a stream of `words` words and a trailer if the request asks for one."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            body = await reader.readexactly(int(length.split(b":")[1]))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            pieces = [_chunk(f"word{number} ") for number in range(words)]
            pieces += [_chunk(_TRAILER)] if b"ctxwrap-protocol" in body else []
            for piece in (*pieces, _chunk(None) + b"data: [DONE]\n\n"):
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                if pause:
                    await asyncio.sleep(pause)
            writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def _connect(port: int) -> Coroutine[Any, Any, Connection]:
    return asyncio.open_connection("127.0.0.1", port)


async def _stream(
    connection: Connection, session: str, mode: str, clock: Callable[[], float], text: str = "Hello."
) -> tuple[float, bool]:
    """The time until the first byte of a stream's body, and whether it came to its end."""
    reader, writer = connection
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]})
    host, port = writer.get_extra_info("peername")
    names = f"x-ctxwrap-session: {session}\r\nx-ctxwrap-mode: {mode}\r\n"
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n{names}"
    begun = clock()
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
    await reader.readuntil(b"\r\n\r\n")
    await reader.read(1)
    seconds = clock() - begun
    end = b""
    while not end.endswith(b"\r\n0\r\n\r\n") and (piece := await reader.read(65536)):
        end = (end + piece)[-200:]
    return seconds, b"[DONE]" in end


async def _stream_once(port: int, session: str) -> tuple[float, bool]:
    connection = await _connect(port)
    try:
        return await _stream(connection, session, "enabled", time.perf_counter)
    finally:
        connection[1].close()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _workers(pid: int) -> list[int]:
    """The processes that serve: those of the supervisor that have the port, else the process itself."""
    found = [each for each in _children(pid) if b"resource_tracker" not in Path(f"/proc/{each}/cmdline").read_bytes()]
    return found or [pid]


def _cpu(pids: list[int]) -> float:
    """The CPU time of all threads, in seconds."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _memory(pids: list[int]) -> float:
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * _PAGE / 2**20


@contextmanager
def _running(*program: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        try:
            yield it
        finally:
            it.terminate()
            it.wait(60)


@contextmanager
def _serving(words: int, pause: float, workers: int) -> Iterator[tuple[int, int, list[int]]]:
    """The ports of an upstream and of a proxy before it, and the proxy's workers."""
    with _running(__file__, "--upstream", str(words), str(pause)) as upstream, tempfile.TemporaryDirectory() as home:
        assert upstream.stdout is not None
        port = int(upstream.stdout.readline())
        options = ["--listen", "127.0.0.1:0", "--upstream", f"openai=http://127.0.0.1:{port}/v1", "--store", home]
        with _running("-m", "ctxwrap", "serve", *options, "--workers", str(workers)) as proxy:
            assert proxy.stderr is not None
            proxy_port = int(proxy.stderr.readline().rsplit(":", 1)[1])
            asyncio.run(_warm_up(proxy_port, workers))
            yield port, proxy_port, _workers(proxy.pid)


async def _warm_up(port: int, workers: int) -> None:
    for number in range(20):
        try:
            await asyncio.gather(*(_stream_once(port, f"warm-{number}-{each}") for each in range(workers)))
        except OSError:
            await asyncio.sleep(0.2)


async def _many(port: int, streams: int, rounds: int, pids: list[int]) -> None:
    for number in range(rounds):
        cpu, begun = _cpu(pids), time.perf_counter()
        done = await asyncio.gather(*(_stream_once(port, f"s-{number}-{each}") for each in range(streams)))
        waits = sorted(seconds for seconds, _ in done)
        print(
            f"round {number + 1}: {sum(ended for _, ended in done)} of {streams} streams complete in "
            f"{time.perf_counter() - begun:.1f} s; first byte median {median(waits):.2f} s, worst {waits[-1]:.2f} s; "
            f"CPU {(_cpu(pids) - cpu) / streams * 1000:.1f} ms per stream; memory {_memory(pids):.0f} MiB"
        )


async def _one_by_one(ports: tuple[int, int], pids: list[int], calls: int) -> None:
    """The CPU time of the worker until the first byte of a stream, turn by turn of one session."""
    for mode in ("disabled", "enabled"):
        for rest, load in ((_REST, "idle between calls"), (0.0, "busy")):
            connection = await _connect(ports[1])
            spent = []
            for number in range(calls):
                await asyncio.sleep(rest)  # the work behind the turn before
                text = f"Message {number}: and what about the {number}th thing?"
                seconds, is_complete = await _stream(connection, f"{mode} {load}", mode, lambda: _cpu(pids), text)
                assert is_complete, "the stream broke off"
                spent.append(seconds * 1000)
            print(
                f"{mode}, {load}: CPU until the first byte {median(spent):.2f} ms (median), {max(spent):.2f} ms (worst)"
            )
    connection = await _connect(ports[0])
    waits = [(await _stream(connection, "", "", time.perf_counter))[0] for _ in range(calls)]
    print(f"direct: {median(waits) * 1000:.2f} ms until the first byte, no worker in between")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500, help="streams at once")
    parser.add_argument("--rounds", type=int, default=8, help="of new sessions; memory grows until a worker has 1024")
    parser.add_argument("--calls", type=int, default=100, help="calls one by one")
    parser.add_argument("--upstream", nargs=2, metavar=("WORDS", "PAUSE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.upstream:
        asyncio.run(_upstream(int(given.upstream[0]), float(given.upstream[1])))
        return
    with _serving(2, 0.02, 1) as (port, proxy_port, pids):
        asyncio.run(_one_by_one((port, proxy_port), pids, given.calls))
    with _serving(30, 0.1, 2) as (_, proxy_port, pids):
        asyncio.run(_many(proxy_port, given.streams, given.rounds, pids))


if __name__ == "__main__":
    main()
