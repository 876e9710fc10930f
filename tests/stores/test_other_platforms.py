"""Platforms without `fcntl` and the POSIX names of `os`, such as Windows: what works there, and what is refused."""

import subprocess
import sys

from ctxwrap.testing.practice import Provider

POSIX_ONLY = """
import os, sys
import asyncio, openai, psycopg, psycopg_pool, pydantic, tiktoken, yaml  # they find what they need on any platform
os_names = (
    "O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC fchmod fchown fdatasync fork getegid geteuid "
    "getgid getpgid getuid killpg lchown mkfifo pread preadv pwrite pwritev register_at_fork sched_getaffinity "
    "sched_yield sendfile statvfs sysconf uname wait3 wait4 waitid"
)
for name in os_names.split():
    delattr(os, name)
os.process_cpu_count = os.cpu_count  # Python on other platforms has no sched_getaffinity behind it
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
assert not [name for name in sys.modules if name.startswith("ctxwrap")]
import ctxwrap
"""

CALLS = """
def ask(client, text):
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])

async def ask_async(client, text):
    return await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])

def chat(store, url):
    options = {"session": "s", "store": store, "context_mode": "enabled"}
    client = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=url), **options)
    ctxwrap.offer("browser_state", "a page", source="tab", session="s")
    turns = [ctxwrap.turn_of(ask(client, "hi"))]
    turns.append(ctxwrap.turn_of(asyncio.run(ask_async(
        ctxwrap.wrap(openai.AsyncOpenAI(api_key="x", base_url=url), **options), "hi again"))))
    client.close()
    print([(turn.round, turn.mode, turn.report.error, turn.report.not_saved) for turn in turns])
    print(len(ctxwrap.open_session("s", store=store).messages()), ctxwrap.verify("s", store=store).findings)
"""

DONE = "[(1, 'enabled', '', ()), (2, 'enabled', '', ())]\n4 ()\n"


def run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", POSIX_ONLY + CALLS + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_calls_over_a_store_in_memory_work(provider: Provider) -> None:
    assert run("chat(ctxwrap.open_store('memory:'), sys.argv[1])", provider.openai_url) == DONE


def test_calls_over_postgresql_work(provider: Provider, database: str) -> None:
    assert run("chat(ctxwrap.open_store(sys.argv[2]), sys.argv[1])", provider.openai_url, database) == DONE


def test_every_module_that_a_user_imports_can_be_imported() -> None:
    code = "print(all(getattr(ctxwrap, name) for name in ctxwrap.__all__))\nimport ctxwrap.cli, ctxwrap.stores.postgres"
    assert run(code) == "True\n"


REFUSED = """
def show(use, value):
    try:
        use(value)
    except ctxwrap.SettingsError as error:
        print(error)

for use in (ctxwrap.open_store, lambda store: ctxwrap.wrap(openai.OpenAI(api_key="x"), store=store)):
    for address in (None, "sessions", "C:/sessions", "file:///C:/sessions"):
        show(use, address)
show(lambda path: ctxwrap.Settings(working_set=path), "working-set.yml")
"""


def test_directories_and_working_sets_are_refused_with_what_to_do() -> None:
    *directories, files = run(REFUSED).splitlines()
    assert directories == 8 * [
        "sessions in a directory need Linux or macOS (import of fcntl halted; None in sys.modules): use "
        "store='postgresql://host/database', or store='memory:' for sessions that end with the process"
    ]
    assert files == "working_set needs Linux or macOS: this platform cannot refuse to follow links"
