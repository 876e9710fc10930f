"""Runs the proxy: one process, or several on one socket, which a supervisor starts again if they end."""

import logging
import multiprocessing
import signal
import socket
import sys
import threading
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from tempfile import TemporaryDirectory
from time import monotonic

import uvicorn

from ctxwrap.service.serve.app import ProxyApp
from ctxwrap.service.serve.config import ServeConfig
from ctxwrap.service.web import HttpConnection

logger = logging.getLogger("ctxwrap")

_SHORT_LIFE = 5.0
"""Seconds; a worker that ends sooner has a fault that another start does not repair."""


class ProxyServer(uvicorn.Server):
    """Reports not ready as soon as it is asked to stop."""

    def __init__(self, config: ServeConfig) -> None:
        self._app = ProxyApp(config)
        super().__init__(
            uvicorn.Config(
                self._app,
                http=HttpConnection,
                limit_concurrency=2 * config.limits.requests + 100,  # connections may be idle
                lifespan="on",
                ws="none",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=max(round(config.drain), 1),
                timeout_keep_alive=75,
                backlog=2048,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.leave()
        await super().shutdown(sockets)


def serve(config: ServeConfig, listening: socket.socket) -> None:
    """Serve until a signal stops it."""
    if config.workers == 1:
        ProxyServer(config).run(sockets=[listening])
        return
    with TemporaryDirectory(prefix="ctxwrap-metrics-") as directory:
        _Supervisor(replace(config, metrics=directory), listening).run()


def _work(config: ServeConfig, listening: socket.socket) -> None:
    logging.basicConfig(level=logging.WARNING)
    ProxyServer(config).run(sockets=[listening])


class _Supervisor:
    def __init__(self, config: ServeConfig, listening: socket.socket) -> None:
        self._config, self._listening = config, listening
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[BaseProcess, float] = {}
        self._is_stopping = threading.Event()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop())
        for _ in range(self._config.workers):
            self._start()
        while self._workers:
            wait([worker.sentinel for worker in self._workers])
            for worker in [each for each in self._workers if not each.is_alive()]:
                age = monotonic() - self._workers.pop(worker)
                if self._is_stopping.is_set():
                    continue
                if age < _SHORT_LIFE:
                    self._stop()
                    sys.exit(f"ctxwrap: a worker ended at once, with exit code {worker.exitcode}")
                logger.warning("ctxwrap: a worker ended with exit code %s; another one starts", worker.exitcode)
                self._start()

    def _start(self) -> None:
        if self._is_stopping.is_set():
            return
        worker = self._context.Process(target=_work, args=(self._config, self._listening))
        worker.start()
        self._workers[worker] = monotonic()

    def _stop(self) -> None:
        self._is_stopping.set()
        for worker in self._workers:
            worker.terminate()
