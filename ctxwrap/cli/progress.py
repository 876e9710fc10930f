"""A bar on stderr for work that takes long, if somebody looks on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LONG = 0.5
"""What takes no more seconds than that needs no bar."""


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """What to tell how much of how much is done; the bar goes when the work is done."""
    bar = _Bar(title)
    try:
        yield bar.show if sys.stderr.isatty() else lambda done, total: None
    finally:
        bar.stop()


class _Bar:
    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = monotonic()
        self._shown: tuple[Progress, TaskID] | None = None

    def show(self, done: int, total: int) -> None:
        if self._shown is None and monotonic() - self._begun >= _LONG:
            self._start()
        if self._shown is not None:
            progress, task = self._shown
            progress.update(task, completed=done, total=total)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        progress.start()
        self._shown = progress, progress.add_task(self._title)

    def stop(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()
