"""Measurements that need a fresh process: start-up cost, and system calls per turn."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

START = """
import json, sys, tempfile, time
import openai
client = openai.OpenAI(api_key="x", base_url=sys.argv[1] + "/v1")
def spent(work):
    start, whole = time.thread_time(), time.process_time()
    done = work()
    took.append((time.thread_time() - start, time.process_time() - whole))
    return done
def wrapped():
    import ctxwrap
    return ctxwrap.wrap(client, store=tempfile.mkdtemp(dir=sys.argv[3]), session="s")
took = []
if sys.argv[2] == "wrapped":
    client = spent(wrapped)
time.sleep(float(sys.argv[4]))
for at in range(3):
    spent(lambda: client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": f"hi {at}"}]))
print(json.dumps(took))
"""

TURNS = """
import json, os, sys, openai, ctxwrap
client = openai.OpenAI(api_key="x", base_url=sys.argv[1] + "/v1")
client = ctxwrap.wrap(client, store=sys.argv[3], session="s") if sys.argv[2] == "wrapped" else client
counts = {"calls": 0, "opens": 0, "fsyncs": 0, "written": 0}
def opened(event, _):
    counts["opens"] += event == "open"
def counted(sync):
    def synced(file):
        counts["fsyncs"] += 1
        return sync(file)
    return synced
sys.addaudithook(opened)
os.fsync, os.fdatasync = counted(os.fsync), counted(os.fdatasync)
def turn(at):
    said = f"question {at}: " + "words " * 40
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": said}])
def passed():
    io = {name: int(value) for name, value in (line.split(": ") for line in open("/proc/self/io"))}
    return {"calls": io["syscr"] + io["syscw"], "written": io["wchar"]}
def mark(name):
    try:
        os.stat(f"/{name}")
    except OSError:
        pass
for at in range(WARM):
    turn(at)
getattr(ctxwrap, "flush", lambda: None)()
counts.update(opens=-1, fsyncs=0)  # one to read /proc/self/io
before = passed()
mark("first-measured-turn")
for at in range(MEASURED):
    turn(WARM + at)
getattr(ctxwrap, "flush", lambda: None)()
mark("no-more-turns")
after = passed()
counts["opens"] -= 1
print(json.dumps({**counts, **{name: after[name] - before[name] for name in after}}))
"""
WARM, MEASURED = 40, 40

_WAITS = frozenset({"futex", "poll", "ppoll", "select", "pselect6", "epoll_wait", "clock_nanosleep", "sched_yield"})
"""Not counted: how often a thread waits depends on the machine's load."""
_WRITES = frozenset({"write", "pwrite64", "writev", "pwritev"})
_LINE = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\((.*)| resumed>(.*))")


class Asked(NamedTuple):
    """System calls and bytes written per turn."""

    calls: float
    opens: float
    fsyncs: float
    written: float


def start_costs(url: str, home: str, kind: str, pause: float, rounds: int) -> list[list[list[float]]]:
    """CPU seconds of `wrap()` and three calls, of thread and process, in `rounds` fresh processes."""
    runs = [json.loads(_python(START, url, kind, home, str(pause))) for _ in range(rounds + 1)]
    return runs[1:]  # the first run writes bytecode


def asked_of_system(url: str, home: str, kind: str) -> Asked:
    """Count with strace between two marks in one process; without strace, with Python and /proc/self/io."""
    code = TURNS.replace("WARM", str(WARM)).replace("MEASURED", str(MEASURED))
    trace = Path(home, f"{kind}.strace")
    store = str(Path(home, kind))
    has_strace = shutil.which("strace") is not None
    before = ["strace", "-f", "-y", "-s", "64", "-o", str(trace)] if has_strace else []
    counts = json.loads(_python(code, url, kind, store, before=before))
    if has_strace:
        counts = _counted(_between_marks(trace.read_text(errors="replace").splitlines()), store)
    return Asked(*(counts[name] / MEASURED for name in Asked._fields))


def _between_marks(lines: Iterable[str]) -> Iterator[str]:
    is_measured = False
    for line in lines:
        if "/first-measured-turn" in line or "/no-more-turns" in line:
            is_measured = "first" in line
        elif is_measured:
            yield line


def _counted(lines: Iterable[str], store: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    files: dict[str, bool] = {}
    """By thread: whether its current write goes to a file of the store."""
    for line in lines:
        match = _LINE.match(line)
        if match is None or match[2] in _WAITS:
            continue
        thread, name, begun, rest = match.groups()
        if begun is not None:
            counts["calls"] += 1
            counts["opens"] += name in ("open", "openat")
            counts["fsyncs"] += name in ("fsync", "fdatasync")
            files[thread] = store in begun
        result = re.search(r"= (\d+)$", begun if rest is None else rest)
        if result and name in _WRITES and files.get(thread):
            counts["written"] += int(result[1])
    return counts


def _python(code: str, *arguments: str, before: Sequence[str] = ()) -> str:
    """The output of a fresh process that uses cached bytecode."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = f"{tempfile.gettempdir()}/ctxwrap-overhead"
    command = [*before, sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
