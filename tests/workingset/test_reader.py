"""Files below the root and nothing else, whatever a path says or somebody does meanwhile."""

import os
import socket
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from ctxwrap.workingset import reader as reader_module
from ctxwrap.workingset.reader import FileText, Reader, Trouble, Unread

SECRET = "the secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file, and secrets all around it."""
    root = tmp_path / "root"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "good.md").write_text("good\n")
    for place in (tmp_path, tmp_path / "root-evil"):
        place.mkdir(exist_ok=True)
        (place / "secret.md").write_text(SECRET)
    return root


def test_read_file_has_digest_and_tokens(root: Path) -> None:
    found = Reader(root, count=len).read("notes/good.md")
    assert found == FileText("notes/good.md", "good\n", sha256(b"good\n").hexdigest(), 5)


def _link(root: Path) -> str:
    (root / "link.md").symlink_to(root.parent / "secret.md")
    return "link.md"


def _inner_link(root: Path) -> str:
    (root / "inner.md").symlink_to("notes/good.md")
    return "inner.md"


def _linked_step(root: Path) -> str:
    (root / "step").symlink_to(root.parent)
    return "step/secret.md"


def _hard_link(root: Path) -> str:
    os.link(root.parent / "secret.md", root / "hard.md")
    return "hard.md"


def _pipe(root: Path) -> str:
    os.mkfifo(root / "pipe")
    return "pipe"


def _socket(root: Path) -> str:
    here = os.getcwd()
    os.chdir(root)
    try:
        socket.socket(socket.AF_UNIX).bind("socket")
    finally:
        os.chdir(here)
    return "socket"


def _loop(root: Path) -> str:
    (root / "loop").symlink_to("loop")
    return "loop/x"


def _large(root: Path) -> str:
    (root / "large").write_bytes(b"x" * (reader_module.MAX_BYTES + 1))
    return "large"


def _sparse(root: Path) -> str:
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    return "sparse"


def _binary(root: Path) -> str:
    (root / "binary").write_bytes(b"ab\0c")
    return "binary"


def _latin(root: Path) -> str:
    (root / "latin").write_bytes("señor".encode("latin-1"))
    return "latin"


ESCAPES: dict[str, tuple[str | Callable[[Path], str], Trouble]] = {
    "parent": ("../secret.md", "bad path"),
    "parent later": ("notes/../../secret.md", "bad path"),
    "sibling with the same beginning": ("../root-evil/secret.md", "bad path"),
    "absolute": ("/etc/passwd", "bad path"),
    "absolute in proc": ("/proc/self/environ", "bad path"),
    "home": ("~/secret.md", "bad path"),
    "drive": ("C:\\secret.md", "bad path"),
    "empty": ("", "bad path"),
    "dot": ("./notes/good.md", "bad path"),
    "empty step": ("notes//good.md", "bad path"),
    "slash behind": ("notes/good.md/", "bad path"),
    "NUL": ("notes/good.md\0.png", "bad path"),
    "line break": ("notes/good.md\n", "bad path"),
    "half a pair": ("\ud800", "bad path"),
    "long path": ("a/" * 600 + "b", "bad path"),
    "long name": ("n" * 300, "no file"),
    "link": (_link, "link"),
    "link inside": (_inner_link, "link"),
    "linked step": (_linked_step, "link"),
    "loop": (_loop, "link"),
    "hard link": (_hard_link, "link"),
    "pipe": (_pipe, "no file"),
    "socket": (_socket, "no file"),
    "directory": ("notes", "no file"),
    "file as a step": ("notes/good.md/x", "no file"),
    "missing": ("nothing.md", "missing"),
    "missing step": ("nothing/at/all.md", "missing"),
    "large": (_large, "too large"),
    "sparse": (_sparse, "too large"),
    "binary": (_binary, "binary"),
    "not UTF-8": (_latin, "not UTF-8"),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_paths_cannot_leave_the_root(root: Path, name: str) -> None:
    way, trouble = ESCAPES[name]
    path = way if isinstance(way, str) else way(root)
    found = Reader(root).read(path)
    assert isinstance(found, Unread)
    assert found.trouble == trouble
    assert found.reason


def test_devices_and_system_files_are_not_read() -> None:
    device = Reader("/dev").read("zero")
    assert isinstance(device, Unread)
    assert device.trouble == "no file"
    if os.path.exists("/proc/self/environ"):
        found = Reader("/proc").read(f"{os.getpid()}/environ")
        assert isinstance(found, Unread), "it says that it is empty and is not"
        assert found.trouble == "changing"


def test_unreadable_file_is_reported(root: Path) -> None:
    path = root / "notes" / "good.md"
    path.chmod(0)
    found = Reader(root).read("notes/good.md")
    if os.geteuid():
        assert isinstance(found, Unread)
        assert found.trouble == "forbidden"


@pytest.mark.parametrize("swapped", ["notes", "notes/good.md"])
def test_link_swapped_in_after_the_check_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """Between the look at a name and its opening somebody puts a link there."""
    (root.parent / "good.md").write_text(SECRET)
    real, victim = os.stat, root / swapped

    def stat_then_swap(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        found = real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if path == victim.name and not victim.is_symlink():
            victim.rename(root / "gone")
            victim.symlink_to(root.parent if swapped == "notes" else root.parent / "good.md")
        return found

    monkeypatch.setattr(reader_module.os, "stat", stat_then_swap)
    assert isinstance(Reader(root).read("notes/good.md"), Unread)


def test_pipe_swapped_in_after_the_check_does_not_block(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, real = root / "notes" / "good.md", os.stat

    def stat_then_swap(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        found = real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if path == victim.name:
            victim.unlink()
            os.mkfifo(victim)
        return found

    monkeypatch.setattr(reader_module.os, "stat", stat_then_swap)
    found = Reader(root).read("notes/good.md")
    assert isinstance(found, Unread)
    assert found.trouble == "no file"


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, real = root / "notes" / "good.md", os.pread

    def swap_then_read(handle: int, size: int, at: int) -> bytes:
        if not victim.is_symlink():
            victim.rename(root / "gone")
            victim.symlink_to(root.parent / "secret.md")
        return real(handle, size, at)

    monkeypatch.setattr(reader_module.os, "pread", swap_then_read)
    found = Reader(root).read("notes/good.md")
    assert not isinstance(found, FileText) or found.text == "good\n"


def test_changing_file_is_read_again_a_limited_number_of_times(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, real, reads = root / "notes" / "good.md", os.pread, []

    def grow_then_read(handle: int, size: int, at: int) -> bytes:
        if len(reads) < growing:
            with victim.open("a") as file:
                file.write("more\n")
        reads.append(at)
        return real(handle, size, at)

    monkeypatch.setattr(reader_module.os, "pread", grow_then_read)
    growing = 1
    found = Reader(root).read("notes/good.md")
    assert isinstance(found, FileText)
    assert found.text == "good\nmore\n"
    reads.clear()
    growing = 99
    found = Reader(root).read("notes/good.md")
    assert isinstance(found, Unread)
    assert found.trouble == "changing"


def test_a_file_that_did_not_change_is_not_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "is_settled", lambda stamp: True)
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    reader, path = Reader(root, count), root / "notes" / "good.md"
    first = reader.read("notes/good.md")
    assert reader.read("notes/good.md") is first
    path.write_text("evil\n")
    os.utime(path, ns=(1, 1))
    again = reader.read("notes/good.md")
    assert isinstance(again, FileText)
    assert again.text == "evil\n"
    assert counted == ["good\n", "evil\n"]
    path.unlink()
    assert isinstance(reader.read("notes/good.md"), Unread)


def test_recently_written_file_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of file systems are coarse: two contents of the same length may have the same stamp."""
    written = time.time_ns()
    monkeypatch.setattr(reader_module, "_stamp", lambda found: (1, 1, found.st_size, written, written))
    monkeypatch.setattr(reader_module.time, "time_ns", lambda: written + 1000)
    reader, path = Reader(root), root / "notes" / "good.md"
    for text in ("aaaa", "bbbb", "cccc"):
        path.write_text(text)
        found = reader.read("notes/good.md")
        assert isinstance(found, FileText)
        assert found.text == text


def test_file_rewritten_during_a_read_is_never_mixed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, real = root / "notes" / "good.md", os.pread
    os.utime(victim, ns=(1, 1))

    def read_half_then_write(handle: int, size: int, at: int) -> bytes:
        piece = real(handle, 2, at)
        if victim.read_text() == "good\n":
            victim.write_text("evil\n")
        return piece

    monkeypatch.setattr(reader_module.os, "pread", read_half_then_write)
    found = Reader(root).read("notes/good.md")
    assert isinstance(found, FileText)
    assert found.text == "evil\n"


def test_number_of_cached_files_is_limited(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "is_settled", lambda stamp: True)
    monkeypatch.setattr(reader_module, "_REMEMBERED", 2)
    reader = Reader(root)
    for name in "abcd":
        (root / name).write_text(name)
        reader.read(name)
    assert list(reader._known) == ["c", "d"]


def test_byte_order_mark_is_not_part_of_the_text(root: Path) -> None:
    (root / "marked.md").write_bytes(b"\xef\xbb\xbftext")
    found = Reader(root).read("marked.md")
    assert isinstance(found, FileText)
    assert found.text == "text"


def test_reader_leaves_no_open_handles(root: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for way, _ in ESCAPES.values():
        Reader(root).read(way if isinstance(way, str) else way(root))
    Reader(root).read("notes/good.md")
    assert len(os.listdir("/dev/fd")) == before
