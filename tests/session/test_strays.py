"""What stands where a derived file belongs and is none: a rebuild takes it away, says so, and follows no link."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.stores.files.store import FileStore
from tests.session.telling import Teller, directory_of, hashes, item

PRECIOUS = "precious"


def in_place(path: Path) -> Path:
    """The path, with nothing there any more."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return path


def full_directory(path: Path, outside: Path) -> None:
    in_place(path).mkdir()
    (path / "within").mkdir()
    (path / "within/x").write_text("x")


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "a directory": lambda path, outside: in_place(path).mkdir(),
    "a directory with files": full_directory,
    "a link to a file": lambda path, outside: in_place(path).symlink_to(outside / "file"),
    "a link to a directory": lambda path, outside: in_place(path).symlink_to(outside),
    "a link to nothing": lambda path, outside: in_place(path).symlink_to(outside / "nothing"),
}
PLACES = ("context/facts.jsonl", "context/child/a/result.md", "latest.md")
DIRECTORIES = ("context", "context/child", "context/child/a/artifact")
CASES = [(place, kind) for place in PLACES for kind in KINDS]
CASES += [(place, kind) for place in DIRECTORIES for kind in KINDS if "link" in kind]


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_rebuild_replaces_stray_entries_with_derived_files(tmp_path: Path, place: str, kind: str) -> None:
    teller = Teller(FileStore(tmp_path / "home"))
    teller.says("Hello.", keeps=[item("e-1", "Ada drinks tea.")])
    start_child("s", "a", handoff="Go.", **teller.place)
    attach_result("s", "a", result="Done.", artifacts={"f": b"1"}, **teller.place)
    ctxwrap.rebuild("s", **teller.place)
    directory, outside = directory_of(teller.store), tmp_path / "outside"
    before = hashes(directory, "context/**/*", "latest.md")
    outside.mkdir()
    (outside / "file").write_text(PRECIOUS)
    KINDS[kind](directory / place, outside)
    rebuilding = ctxwrap.rebuild("s", **teller.place)
    assert [name.rstrip("/") for name in rebuilding.mended] == [place]
    assert hashes(directory, "context/**/*", "latest.md") == before
    assert not [path for path in directory.rglob("*") if path.is_symlink()]
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == PRECIOUS
    assert not ctxwrap.verify("s", **teller.place).findings
    assert ctxwrap.rebuild("s", **teller.place).mended == ()


def test_rebuild_keeps_files_of_the_operator(tmp_path: Path) -> None:
    teller = Teller(FileStore(tmp_path / "home"))
    teller.chats(1)
    context = directory_of(teller.store) / "context"
    (context / "pinned").mkdir(exist_ok=True)
    (context / "pinned/linked.md").symlink_to(tmp_path)
    (context / "pinned/sub").mkdir()
    (context / "budget").symlink_to(tmp_path / "nothing")
    assert ctxwrap.rebuild("s", **teller.place).mended == ()
    assert (context / "pinned/linked.md").is_symlink()
    assert (context / "pinned/sub").is_dir()
    assert (context / "budget").is_symlink()


def test_rebuild_command_reports_removed_strays(tmp_path: Path) -> None:
    teller = Teller(FileStore(tmp_path))
    teller.chats(1)
    in_place(directory_of(teller.store) / "latest.md").symlink_to(tmp_path)
    done = CliRunner().invoke(main, ["rebuild", "s", "--store", str(tmp_path)])
    assert done.exit_code == 0
    assert done.output.splitlines()[0] == "removed, not a file of the session: latest.md"
