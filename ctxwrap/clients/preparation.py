"""Prepares calls in a thread: loads the modules, patterns and the tokenizer that they need, while `wrap()` returns."""

import os
from contextlib import suppress
from threading import Thread

_FORK_TIMEOUT = 10.0
"""Seconds that a fork waits for what is being loaded."""

_loading: dict[str, Thread] = {}
"""The threads, by encoding."""


def prepare_calls(encoding: str) -> None:
    """Load what calls need whose tokens have this encoding; a call that needs it meanwhile waits."""
    if encoding in _loading:
        return
    thread = Thread(target=_load, args=(encoding,), name="ctxwrap-loading", daemon=True)
    with suppress(RuntimeError):  # an interpreter that is shutting down starts no threads
        thread.start()
        _loading[encoding] = thread


def _load(encoding: str) -> None:
    from ctxwrap.clients.sdk_call import read_sample
    from ctxwrap.tokens.counting import encoding as load_encoding

    read_sample()
    load_encoding(encoding)


def _finish_loading() -> None:
    for thread in list(_loading.values()):
        thread.join(_FORK_TIMEOUT)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_loading)  # a forked child would wait for locks of a thread that it does not have
