"""Counts for Prometheus. Workers count in files that they map into memory, so that each can show the sums of all."""

import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path

_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)
_SIZE = 8

_HELP = {
    "ctxwrap_requests_total": ("counter", "Requests that were answered by an upstream, by upstream and status."),
    "ctxwrap_refused_total": ("counter", "Requests that were not sent on, by status."),
    "ctxwrap_turns_total": ("counter", "Model calls, by what became of their turn."),
    "ctxwrap_streams_cut_total": ("counter", "Replies that ended early, by whose side ended them."),
    "ctxwrap_requests_in_flight": ("gauge", "Requests that are being answered."),
    "ctxwrap_first_byte_seconds": ("histogram", "Time until the first byte of a reply."),
    "ctxwrap_request_seconds": ("histogram", "Time until the last byte of a reply."),
}
_STATUSES = ("2xx", "3xx", "4xx", "5xx")
_REFUSALS = (400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 429, 500, 502, 503, 504)
TURNS = ("complete", "aborted", "not_saved", "without_context")


def _samples(upstreams: Iterable[str]) -> Iterator[str]:
    """Every sample that can occur, in the order of the file."""
    for name in upstreams:
        yield from (f'ctxwrap_requests_total{{upstream="{name}",status="{status}"}}' for status in _STATUSES)
    yield from (f'ctxwrap_refused_total{{status="{status}"}}' for status in _REFUSALS)
    yield from (f'ctxwrap_turns_total{{outcome="{outcome}"}}' for outcome in TURNS)
    yield from (f'ctxwrap_streams_cut_total{{by="{side}"}}' for side in ("client", "upstream", "server"))
    yield "ctxwrap_requests_in_flight"
    for name, (kind, _) in _HELP.items():
        if kind == "histogram":
            yield from (f'{name}_bucket{{le="{bound:g}"}}' for bound in _BUCKETS)
            yield from (f'{name}_bucket{{le="+Inf"}}', f"{name}_sum", f"{name}_count")


class Metrics:
    """The counts of one worker."""

    def __init__(self, upstreams: Iterable[str], directory: str = "") -> None:
        self._places = {sample: number * _SIZE for number, sample in enumerate(_samples(upstreams))}
        self._directory = Path(directory) if directory else None
        size = len(self._places) * _SIZE
        self._own: mmap.mmap | bytearray = bytearray(size)
        if self._directory is not None:
            with open(self._directory / f"{os.getpid()}.metrics", "w+b") as file:
                file.truncate(size)
                self._own = mmap.mmap(file.fileno(), size)

    def add(self, sample: str, amount: float = 1.0) -> None:
        place = self._places[sample]
        struct.pack_into("<d", self._own, place, struct.unpack_from("<d", self._own, place)[0] + amount)

    def observe(self, name: str, seconds: float) -> None:
        """Count a time in its bucket; the text adds up the buckets below."""
        found = bisect_left(_BUCKETS, seconds)
        bound = f"{_BUCKETS[found]:g}" if found < len(_BUCKETS) else "+Inf"
        self.add(f'{name}_bucket{{le="{bound}"}}')
        self.add(f"{name}_sum", seconds)
        self.add(f"{name}_count")

    def text(self) -> str:
        """All counts of all workers in Prometheus' text format."""
        sums = self._sums()
        lines: list[str] = []
        for name, (kind, help_text) in _HELP.items():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            below = 0.0
            for sample, value in sums.items():
                if sample.partition("{")[0] in (name, f"{name}_bucket", f"{name}_sum", f"{name}_count"):
                    below = below + value if "_bucket{" in sample else value
                    lines.append(f"{sample} {below:.17g}")
        return "\n".join(lines) + "\n"

    def _sums(self) -> dict[str, float]:
        """The counts of all workers. Those of a worker that has ended stay, except for its requests in flight."""
        sources: list[tuple[bytes | mmap.mmap | bytearray, bool]] = []
        if self._directory is None:
            sources.append((self._own, True))
        else:
            sources += [(path.read_bytes(), _is_alive(path.stem)) for path in self._directory.glob("*.metrics")]
        size = len(self._places) * _SIZE
        sums = dict.fromkeys(self._places, 0.0)
        for source, is_alive in sources:
            if len(source) != size:
                continue
            for sample, place in self._places.items():
                if is_alive or sample != "ctxwrap_requests_in_flight":
                    sums[sample] += struct.unpack_from("<d", source, place)[0]
        return sums


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (OSError, ValueError):
        return False
    return True
