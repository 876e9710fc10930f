"""The PostgreSQL of the tests starts for root and for everybody else, and nobody overlooks that there is none."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from ctxwrap.stores.postgres import PostgresStore
from ctxwrap.testing import KEY
from tests.stores.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]


def as_nobody(work: Callable[[], bytes]) -> bytes:
    """What the work gives in a process of an unprivileged user.

    A forked one: the user may not be able to reach this interpreter, which root may have at home.
    """
    nobody, (reading, writing) = pwd.getpwnam("nobody"), os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            os.write(writing, work())
        except BaseException as error:
            os.write(writing, repr(error).encode()[:4000])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        given = told.read()
    os.waitpid(process, 0)
    return given


def test_a_user_who_is_not_root_starts_a_server(postgres: PostgresServer) -> None:
    def work() -> bytes:
        with PostgresServer(postgres.reachable) as server, psycopg.connect(server.url()) as connection:
            (directory,) = connection.execute("SHOW data_directory").fetchone() or ()
            assert os.stat(directory).st_uid == os.geteuid() != 0
            return bytes(connection.execute("SELECT 'it runs'::bytea").fetchall()[0][0])

    assert (as_nobody(work) if os.geteuid() == 0 else work()) == b"it runs"


def test_server_runs_from_a_directory_only_root_can_read(postgres: PostgresServer, tmp_path: Path) -> None:
    """As in a home directory: the binaries are brought to where the server's user can reach them."""
    tmp_path.chmod(0o700)
    package = tmp_path / postgres.binaries.parent.parent.name
    shutil.copytree(postgres.binaries.parent, package / postgres.binaries.parent.name, symlinks=True)
    libraries = postgres.binaries.parent.parent.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, tmp_path / libraries.name)
    with PostgresServer(package / postgres.binaries.parent.name / "bin") as server:
        assert PostgresStore(server.url()).open(KEY).read("messages") == ([], 0)


def skipped_or_failed(**environment: str) -> tuple[int, str]:
    """A test that needs a server, on a machine that has none."""
    known = {name: value for name, value in os.environ.items() if name not in ("CI", "CTXWRAP_REQUIRE_PG")}
    known |= {
        "CTXWRAP_TEST_PG_BIN": "/nonexistent",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        **environment,
    }
    test = "tests/stores/test_postgres_server.py::test_a_user_who_is_not_root_starts_a_server"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n0", test]
    done = subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_missing_server_skips_tests_with_a_notice() -> None:
    code, told = skipped_or_failed()
    assert code == 0, told
    assert "1 skipped" in told
    assert "Its tests are SKIPPED" in told


@pytest.mark.parametrize("name", ["CI", "CTXWRAP_REQUIRE_PG"])
def test_missing_server_is_a_failure_where_one_is_required(name: str) -> None:
    code, told = skipped_or_failed(**{name: "1"})
    assert code == 1, told
    assert "NO POSTGRESQL" in told


def test_ci_requires_a_postgres_server() -> None:
    assert "export CTXWRAP_REQUIRE_PG=1" in (ROOT / ".ci" / "run").read_text().splitlines()
