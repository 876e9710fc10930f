"""The ways to the tools: official clients of two languages, in memory, on stdio and over HTTP, all used alike."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyio
import httpx2
import pytest
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from platformdirs import user_cache_dir

from ctxwrap.service.mcp.server import build_server_for
from ctxwrap.service.memories import Memories
from ctxwrap.stores import open_store

ROOT = Path(__file__).parents[3]
TOKENS = {"token-of-acme-0123456789": "acme", "token-of-other-0123456789": "other"}
PACKAGES = ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0")


class Answer(NamedTuple):
    data: Any
    """What it says as fields."""
    text: str
    failed: bool


class Connection(Protocol):
    async def call(self, tool: str, **arguments: Any) -> Answer: ...
    async def tools(self) -> list[dict[str, Any]]: ...


class Door(Protocol):
    def open(self) -> AbstractAsyncContextManager[Connection]: ...


class InPython:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Answer:
        return _answer((await self.client.call_tool(tool, arguments)).model_dump(by_alias=True))

    async def tools(self) -> list[dict[str, Any]]:
        return [tool.model_dump(by_alias=True) for tool in (await self.client.list_tools()).tools]


class InMemory:
    def __init__(self, home: Path) -> None:
        self.memories = Memories(open_store(home), tenant="acme", vault="default")
        if "notes" not in {memory.memoryId for memory in self.memories.list_memories()}:
            self.memories.create_memory("notes", memory_id="notes")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        async with Client(build_server_for(self.memories, memory="notes")) as client:
            yield InPython(client)


def command(home: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "ctxwrap", "mcp", "--store", str(home), "--memory", "notes", *more]


def environment() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}


class OnStdio:
    def __init__(self, home: Path, mode: str = "auto") -> None:
        self._home, self._mode = home, mode

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        program, *arguments = command(self._home, "--tenant", "acme")
        server = StdioServerParameters(command=program, args=arguments, env=environment())
        async with Client(server, mode=self._mode) as client:  # type: ignore[arg-type]  # one of its words
            yield InPython(client)


class OverHttp:
    def __init__(self, url: str, token: str, mode: str = "auto") -> None:
        self._url, self._token, self._mode = url, token, mode

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {self._token}"}, timeout=60) as http:
            transport = streamable_http_client(self._url, http_client=http)
            async with Client(transport, mode=self._mode) as client:  # type: ignore[arg-type]  # one of its words
                yield InPython(client)


class InNode:
    """One of the official Node clients; `place` says where its server is."""

    def __init__(self, modules: Path, client: str, **place: Any) -> None:
        self._said = json.dumps({"modules": str(modules), "client": client, **place})

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        driver = str(Path(__file__).with_name("client.mjs"))
        async with await anyio.open_process(["node", driver, self._said], stderr=None) as process:
            try:
                yield _Lines(process)
                assert process.stdin is not None
                await process.stdin.aclose()
                assert await process.wait() == 0
            finally:
                if process.returncode is None:
                    process.kill()


class _Lines:
    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from, self._read = process.stdin, TextReceiveStream(process.stdout), ""

    async def call(self, tool: str, **arguments: Any) -> Answer:
        return _answer(await self._asked({"tool": tool, "arguments": arguments}))

    async def tools(self) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = (await self._asked({}))["tools"]
        return tools

    async def _asked(self, line: dict[str, Any]) -> Any:
        await self._to.send(json.dumps(line).encode() + b"\n")
        while "\n" not in self._read:
            self._read += await self._from.receive()
        answer, _, self._read = self._read.partition("\n")
        return json.loads(answer)


def _answer(result: dict[str, Any]) -> Answer:
    text = "".join(part["text"] for part in result["content"])
    return Answer(result.get("structuredContent"), text, bool(result.get("isError")))


def node_modules(packages: tuple[str, ...] = PACKAGES) -> Path:
    """Where the Node clients are installed; skips, and says why, if they cannot be."""
    where, problem = _node_modules(packages)
    if problem:
        pytest.skip(f"NOT TESTED with the official Node clients: {problem}")
    return where


@cache
def _node_modules(packages: tuple[str, ...]) -> tuple[Path, str]:
    where = Path(user_cache_dir("ctxwrap-tests", appauthor=False)) / "node" / "-".join(packages).replace("/", "-")
    if not (shutil.which("node") and shutil.which("npm")):
        return where, "node and npm are not installed"
    where.mkdir(parents=True, exist_ok=True)
    with (where / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return where, "" if (where / "done").exists() else _install(where, packages)


def _install(where: Path, packages: tuple[str, ...]) -> str:
    """What went wrong, if anything did."""
    (where / "package.json").write_text('{"private": true}')
    patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=20000"]
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *patience, *packages]
    try:
        done = subprocess.run(install, cwd=where, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return "npm took longer than two minutes"
    if done.returncode:
        return f"npm says {done.stderr[-500:]}"
    (where / "done").touch()
    return ""


@contextmanager
def http_server(home: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of the command line on a free port, and its address."""
    program = command(home, "--http", "127.0.0.1:0", *more)
    env = {**os.environ, **environment()}
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=env) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        assert line.startswith("listening on "), line + server.stderr.read()
        try:
            yield line.removeprefix("listening on ").strip(), server
        finally:
            server.terminate()
            server.wait(20)
