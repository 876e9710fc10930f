"""The store in files keeps the contract, and everything that files and directories can do to it."""

import contextlib
import errno
import itertools
import json
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.session.lookup import key_for
from ctxwrap.stores.base import CACHE, Checkpoint, PlaintextGuard, Store
from ctxwrap.stores.files.format import FORMAT
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.names import check_id, safe_name
from ctxwrap.testing import KEY, StoreContract, contents, record
from ctxwrap.types import Record, SessionKey

HOSTILE = [
    "..", ".", "/", "../../etc/passwd", "a/b", "a\\b", "\x00", "a\nb", " ", "con", "CON", "nul.txt", "aux", "x.sock",
    "x.d", "-rf", "~", "$HOME", "Alice", "alice", "ALICE", "e\u0301", "\u00e9", "😀", "x" * 300, "x" * 301,
    ".hidden", "trailing.", "a+b", "\ud800", "%2e%2e", "id+" + "0" * 32,
    "index", "Index", "index/list", "prn", "com1", "COM1", "com1.log", "lpt9", "clock$", "conin$", "nul.", "nul ",
    "a\x00b", "é" * 150, "e\u0301" * 100, "😀" * 75, "👩‍👩‍👧", "😀\ufe0f", "\u212b", "\u00c5", "A\u030a", "ﬁ", "fi",
    "ß", "ss", "SS", "ẞ", "İ", "i\u0307", "ı", "i", "I", "K", "\u212a", "k", "a" * 64, "a" * 65, "a" * 63 + ".",
]  # fmt: skip

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")


class TestFileStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FileStore(tmp_path / "home")

    @pytest.fixture
    def reopened(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: FileStore(tmp_path / "home")


def written(root: Path, *texts: str) -> Path:
    """A session with these records, one after the other; its directory."""
    log = FileStore(root).open(KEY)
    for text in texts:
        with log.locked():
            log.append({"messages": [record(text)]})
    return log.directory


def kept(root: Path, *texts: str, key: SessionKey = KEY) -> Path:
    """A session with these records and a checkpoint behind them; the checkpoint's file."""
    log = FileStore(root).open(key)
    with log.locked():
        log.save_checkpoint(Checkpoint(log.append({"messages": [record(text) for text in texts]}), {"texts": texts}))
    return log.directory / ".checkpoint"


def test_hostile_ids_get_directories_of_their_own_inside_the_root(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "root")
    for id in HOSTILE:
        log = store.open(SessionKey(id, id, id))
        with log.locked():
            log.append({"messages": [record(id)]})
        assert (tmp_path / "root").resolve() in log.directory.resolve().parents
    folded = {safe_name(id).casefold() for id in HOSTILE}
    assert len(folded) == len(HOSTILE)
    for id in HOSTILE:
        assert contents(store.open(SessionKey(id, id, id))) == [id]
        assert list(store.sessions(id, id)) == [id]


@given(st.text(st.sampled_from("\ud83d\ude00\udbff\udfff😀a"), min_size=1))
def test_ids_round_trip_through_directory_names(id: str) -> None:
    known = check_id("session", id)
    assert json.loads(json.dumps(known)) == known == check_id("session", known)
    assert known.encode("utf-16-le", "surrogatepass") == id.encode("utf-16-le", "surrogatepass")


def test_surrogate_pair_and_its_character_name_the_same_session(tmp_path: Path) -> None:
    for text in ("\ud83d\ude00", "😀"):
        log = FileStore(tmp_path).open(key_for(text))
        with log.locked():
            log.append({"messages": [record("a")]})
    (key,) = FileStore(tmp_path).keys()
    assert (key.session, contents(FileStore(tmp_path).open(key))) == ("😀", ["a", "a"])


def test_undecodable_file_names_can_be_loaded_as_listed(tmp_path: Path) -> None:
    directory = written(tmp_path, "a")
    (directory / "context" / "pinned").mkdir(parents=True)
    with open(os.fsencode(directory / "context" / "pinned") + b"/caf\xe9.md", "wb") as foreign:
        foreign.write(b"x")
    files = FileStore(tmp_path).open(KEY).files
    (entry,) = files.entries("context/pinned")
    assert files.load(entry.name) == b"x"


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_two_ids_share_a_name(first: str, second: str) -> None:
    assert (safe_name(first).casefold() == safe_name(second).casefold()) == (first == second)


@given(st.text(min_size=1))
def test_directory_names_are_legal(id: str) -> None:
    name = safe_name(id)
    assert name.isascii()
    assert len(name) <= 64
    assert not name.startswith(".")
    assert not set(name) & set("/\\\0 ")


def test_only_the_owner_may_read_session_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        directory = written(tmp_path / "root", "secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def assert_sealed(path: Path) -> None:
    check = 0
    for line in path.read_bytes().splitlines():
        head, own = line[:-11], line[-11:]
        assert head.endswith(b',"c":"%08x' % check)
        check = zlib.crc32(head)
        assert own == b'%08x"}}' % check


def test_every_line_is_sealed_by_a_checksum_over_itself_and_the_line_before(tmp_path: Path) -> None:
    assert_sealed(written(tmp_path, "a", "b", "c") / "messages.jsonl")


def test_torn_line_is_moved_aside(tmp_path: Path) -> None:
    directory = written(tmp_path, "a", "b")
    path = directory / "messages.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert contents(FileStore(tmp_path).open(KEY)) == ["a"]
    written(tmp_path, "c")
    assert contents(FileStore(tmp_path).open(KEY)) == ["a", "c"]
    (torn,) = directory.glob("*.torn-*")
    assert whole[:-5].endswith(torn.read_bytes())


def test_garbage_line_hides_no_other_line(tmp_path: Path) -> None:
    path = written(tmp_path, "a", "b") / "messages.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"\xff garbage\n" + b"[1]\n" + b"[" * 100_000 + b"\n" + second)
    assert contents(FileStore(tmp_path).open(KEY)) == ["a", "b"]


def test_a_directory_of_another_session_is_refused(tmp_path: Path) -> None:
    directory = written(tmp_path, "a")
    meta = json.loads((directory / "meta.json").read_text())
    assert meta == {**KEY._asdict(), "format": FORMAT}
    (directory / "meta.json").write_text(json.dumps({**meta, "tenant": "somebody else"}))
    with (
        pytest.raises(ctxwrap.StoreCorrupt, match="does not name session 'session'"),
        FileStore(tmp_path).open(KEY).locked(),
    ):
        pass


def test_unwritable_directory_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(ctxwrap.StoreUnavailable, match="choose another with store="),
        FileStore(tmp_path / "file").open(KEY).locked(),
    ):
        pass


def test_a_link_in_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    directory = written(tmp_path / "root", "a")
    (directory / "messages.jsonl").unlink()
    (tmp_path / "target").write_text("untouched")
    (directory / "messages.jsonl").symlink_to(tmp_path / "target")
    log = FileStore(tmp_path / "root").open(KEY)
    with pytest.raises(ctxwrap.StoreUnavailable), log.locked():
        log.append({"messages": [record("b")]})
    assert (tmp_path / "target").read_text() == "untouched"


@pytest.mark.parametrize("url", ["{}", "file://{}"])
def test_a_store_opens_at_a_path_or_url(tmp_path: Path, url: str) -> None:
    store = ctxwrap.open_store(url.format(tmp_path))
    assert isinstance(store, PlaintextGuard)
    assert store.root == tmp_path


def test_environment_variable_names_the_default_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTXWRAP_HOME", str(tmp_path))
    store = ctxwrap.open_store()
    assert isinstance(store, PlaintextGuard)
    assert store.root == tmp_path
    monkeypatch.delenv("CTXWRAP_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    store = ctxwrap.open_store()
    assert isinstance(store, PlaintextGuard)
    assert "ctxwrap" in store.root.parts


@pytest.mark.parametrize("url", ["", "redis://localhost", "s3://bucket"])
def test_an_unknown_store_is_an_error(url: str) -> None:
    with pytest.raises(ctxwrap.SettingsError, match="no store at"):
        ctxwrap.open_store(url)


def test_process_forked_inside_the_lock_does_not_hold_the_lock(tmp_path: Path) -> None:
    log = FileStore(tmp_path).open(KEY)
    ready, go = os.pipe()
    with log.locked():
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(ready, 1)
            os._exit(0)
    with log.locked():
        log.append({"messages": [record("while the child lives")]})
    os.close(go)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert contents(log) == ["while the child lives"]


def test_only_the_owner_may_read_a_checkpoint(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = kept(tmp_path / "root", "secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_checkpoint_with_any_changed_byte_is_ignored(tmp_path: Path) -> None:
    path = kept(tmp_path, "a", "b")
    whole = path.read_bytes()
    log = FileStore(tmp_path).open(KEY)
    assert log.load_checkpoint() is not None
    for at in range(len(whole)):
        for damaged in (
            whole[:at],
            whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
            whole[:at] + whole[at + 1 :],
        ):
            path.write_bytes(damaged)
            assert log.load_checkpoint() is None
    for nonsense in (b"null", b"[]", b'{"ctx":{"positions":{"messages":1e999}}}', b"[" * 100_000, b"\xff"):
        path.write_bytes(nonsense)
        assert log.load_checkpoint() is None


def test_checkpoint_of_another_log_is_ignored(tmp_path: Path) -> None:
    path, other = kept(tmp_path, "a", "b"), kept(tmp_path, "a", "b", key=KEY._replace(session="other"))
    path.write_bytes(other.read_bytes())
    assert FileStore(tmp_path).open(KEY).load_checkpoint() is None
    kept(tmp_path, "c")
    log = path.parent / "messages.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert FileStore(tmp_path).open(KEY).load_checkpoint() is None
    written(tmp_path, "d")
    assert FileStore(tmp_path).open(KEY).load_checkpoint() is None


def test_partial_checkpoint_after_a_crash_is_written_again(tmp_path: Path) -> None:
    path = kept(tmp_path, "a", "b" * 100)
    path.write_bytes(path.read_bytes()[:50])
    assert FileStore(tmp_path).open(KEY).load_checkpoint() is None
    kept(tmp_path, "c")
    known = FileStore(tmp_path).open(KEY).load_checkpoint()
    assert known is not None
    assert known.known == {"texts": ["c"]}
    assert sorted(file.name for file in path.parent.iterdir()) == [
        ".checkpoint",
        ".lock",
        "messages.jsonl",
        "meta.json",
    ]


def test_a_checkpoint_is_written_in_place(tmp_path: Path) -> None:
    path = kept(tmp_path, "a" * 9000)
    before = path.stat().st_ino
    kept(tmp_path, "b")
    known = FileStore(tmp_path).open(KEY).load_checkpoint()
    assert known is not None
    assert known.known == {"texts": ["b"]}
    assert path.stat().st_ino == before


def test_a_checkpoint_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    directory = written(tmp_path, "a")
    (directory / ".checkpoint").mkdir()
    log = FileStore(tmp_path).open(KEY)
    with pytest.raises(ctxwrap.StoreUnavailable), log.locked():
        log.save_checkpoint(Checkpoint({}, {}))
    assert log.load_checkpoint() is None


def shout(line: Record) -> Record:
    return {**line, "content": line["content"].upper()}


def test_rewritten_log_has_new_checksums_and_owner_only_access(tmp_path: Path) -> None:
    directory = written(tmp_path, "a", "B", "\ud800", "é")
    log = FileStore(tmp_path).open(KEY)
    before = os.umask(0)
    try:
        with log.locked():
            log.rewrite("messages", shout, [record("new")])
            log.append({"messages": [record("more")]})
    finally:
        os.umask(before)
    assert contents(log) == ["A", "B", "\ud800", "É", "new", "more"]
    assert_sealed(directory / "messages.jsonl")
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert sorted(path.name for path in directory.iterdir()) == [".lock", "messages.jsonl", "meta.json"]


def test_invalid_lines_survive_a_rewrite_unless_they_are_banned(tmp_path: Path) -> None:
    path = written(tmp_path, "a", "b") / "messages.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    strange = b"\xff garbage\n[1]\n{}\n" + b'{"content":"by hand"}\n'
    path.write_bytes(first + b'"the s\\u00e9cret\n' + strange + '"the sécret'.encode() + b"\n" + second + b'{"cut sho')
    log = FileStore(tmp_path).open(KEY)
    with log.locked():
        log.rewrite("messages", lambda line: line if line["content"] == "by hand" else shout(line), banned=["sécret"])
        log.append({"messages": [record("c")]})
    assert contents(log) == ["A", "by hand", "B", "c"]
    assert strange in path.read_bytes()
    assert b"cret" not in path.read_bytes()
    assert b"cut sho" not in path.read_bytes()
    with log.locked():
        log.rewrite("messages", shout)
    assert contents(log) == ["A", "BY HAND", "B", "C"]


def test_rewrite_removes_files_left_by_a_crash(tmp_path: Path) -> None:
    checkpoint = kept(tmp_path, "a")
    for name in (".checkpoint.new", "messages.jsonl.torn-7", "messages.jsonl.new"):
        (checkpoint.parent / name).write_bytes(b"half of")
    log = FileStore(tmp_path).open(KEY)
    with log.locked():
        log.rewrite("messages", shout)
    assert [file for file in checkpoint.parent.rglob("*") if b"half of" in file.read_bytes()] == []
    assert not checkpoint.exists()


def test_a_link_in_place_of_a_log_is_not_rewritten(tmp_path: Path) -> None:
    directory = written(tmp_path / "root", "a")
    (directory / "messages.jsonl").rename(tmp_path / "target")
    (directory / "messages.jsonl").symlink_to(tmp_path / "target")
    log = FileStore(tmp_path / "root").open(KEY)
    with pytest.raises(ctxwrap.StoreUnavailable, match="cannot rewrite"), log.locked():
        log.rewrite("messages", shout)
    assert b'"a"' in (tmp_path / "target").read_bytes()


STEPS = ("open", "write", "fsync", "fdatasync", "replace", "unlink", "close")


def dies_at(step: int, work: Callable[[], None]) -> bool:
    """Do `work` in a process that ends without a word before its system call number `step`; whether it came to that."""
    child = os.fork()
    if child == 0:
        calls = itertools.count()
        for name in STEPS:
            setattr(os, name, _dying(getattr(os, name), calls, step))
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def _dying(call: Callable[..., Any], calls: Iterator[int], step: int) -> Callable[..., Any]:
    def dying(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == step:
            os._exit(9)
        return call(*args, **kwargs)

    return dying


def test_killed_rewrite_leaves_the_old_log_or_the_new_one(tmp_path: Path) -> None:
    old, new = ["a", "b", "c"], ["A", "B", "C", "new"]
    seen = []
    for step in itertools.count():
        root = tmp_path / str(step)
        directory = kept(root, *old).parent

        def work(root: Path = root) -> None:
            log = FileStore(root).open(KEY)
            with log.locked():
                log.rewrite("messages", shout, [record("new")])

        died = dies_at(step, work)
        log = FileStore(root).open(KEY)
        seen.append(contents(log))
        assert seen[-1] in (old, new)
        assert_sealed(directory / "messages.jsonl")
        checkpoint = log.load_checkpoint()
        assert checkpoint is None or seen[-1] == old
        if not died:
            break
        with log.locked():
            log.rewrite("messages", shout)
        assert contents(log) == [text.upper() if text != "new" else "NEW" for text in seen[-1]]
        assert not list(directory.glob("*.new"))
    assert seen[0] == old
    assert seen[-1] == new
    assert len(seen) > 6


@pytest.mark.parametrize("step", STEPS)
def test_failed_rewrite_leaves_the_old_log_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    directory = kept(tmp_path, "a", "b").parent
    log = FileStore(tmp_path).open(KEY)

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.EIO, "the disk is gone")

    with log.locked(), monkeypatch.context() as patch, contextlib.suppress(ctxwrap.StoreUnavailable):
        patch.setattr(f"ctxwrap.stores.files.disk.os.{step}", fail)
        log.rewrite("messages", shout)
    assert contents(log) in (["a", "b"], ["A", "B"])
    assert_sealed(directory / "messages.jsonl")


def test_link_to_a_missing_file_creates_nothing(tmp_path: Path) -> None:
    log = FileStore(tmp_path).open(KEY)
    with log.locked():
        log.files.save("there/file", b"x")
        for name in ("absent", "there/absent", "absent/file", "there"):
            log.files.link(name, "other/name")
        assert log.files.load("other/name") is None
        log.files.link("there/file", "other/name")
    assert log.files.load("other/name") == b"x"


def test_a_file_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    log = FileStore(tmp_path).open(KEY)
    with log.locked():
        log.files.save("file", b"x")
        for change in (
            lambda: log.files.save("file/below", b"x"),
            lambda: log.files.save("file/below", b"x", lasting=True),
            lambda: log.files.extend("file/below", b"x", 0),
            lambda: log.files.link("file", "file/below"),
        ):
            with pytest.raises(ctxwrap.StoreUnavailable, match="cannot write to session"):
                change()
    assert log.files.load("file") == b"x"
    assert [file.name for file in log.files.entries()] == ["file", "meta.json"]


def test_streams_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    written(tmp_path, "a")
    log = FileStore(tmp_path).open(KEY)
    (log.directory / "events.jsonl").mkdir()
    with log.locked(), pytest.raises(ctxwrap.StoreUnavailable):
        log.append({"messages": [record("b")], "events": [record("e")]})
    assert contents(log) == contents(FileStore(tmp_path).open(KEY)) == ["a"]
    (log.directory / "events.jsonl").rmdir()
    with log.locked():
        log.append({"messages": [record("c")], "events": [record("e")]})
    assert contents(FileStore(tmp_path).open(KEY)) == ["a", "c"]
    assert not [line.fault for line in log.lines("messages") if line.fault]


def open_files(root: Path) -> list[str]:
    """The files below a directory that this process has open, also removed ones."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return [path for link in links if os.path.lexists(link) and (path := os.readlink(link)).startswith(f"{root}/")]


@needs_proc
def test_few_files_stay_open_between_turns_and_none_after_the_store_is_closed(tmp_path: Path) -> None:
    stores = [FileStore(tmp_path / name) for name in ("one", "other")]
    for store, number in itertools.product(stores, range(60)):
        log = store.open(KEY._replace(session=str(number)))
        with log.locked():
            log.append({stream: [record(stream)] for stream in ("messages", "events")})
    assert 0 < len(open_files(tmp_path)) <= 64
    stores[1].close()
    assert open_files(tmp_path / "other") == []
    with log.locked():
        log.append({"messages": [record("again")]})
    assert contents(log) == ["messages", "again"]
    for store in stores:
        store.close()
    assert open_files(tmp_path) == []


@needs_proc
def test_a_rewritten_stream_is_not_kept_open(tmp_path: Path) -> None:
    log = FileStore(tmp_path).open(KEY)
    for text in ("secret", "other"):
        with log.locked():
            log.append({"messages": [record(text)]})
    with log.locked():
        log.rewrite("messages", lambda each: {**each, "content": "gone"})
    assert not [path for path in open_files(tmp_path) if path.endswith("(deleted)")]
    with log.locked():
        log.append({"messages": [record("new")]})
    assert contents(log) == contents(FileStore(tmp_path).open(KEY)) == ["gone", "gone", "new"]


@pytest.mark.parametrize("reads", [False, True])
def test_a_stream_that_another_program_replaced_gets_the_next_records(tmp_path: Path, reads: bool) -> None:
    log = FileStore(tmp_path).open(KEY)
    for text in ("a", "b"):
        with log.locked():
            log.append({"messages": [record(text)]})
    path, copy = log.directory / "messages.jsonl", tmp_path / "copy"
    _, position = log.read("messages")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)
    with log.locked():
        if reads:
            assert log.read("messages", position) == ([], position)
        log.append({"messages": [record("c")]})
    assert contents(FileStore(tmp_path).open(KEY)) == ["a", "b", "c"]
    path.write_bytes(b"")
    with log.locked():
        log.append({"messages": [record("d")]})
    assert contents(FileStore(tmp_path).open(KEY)) == ["d"]


def test_a_reader_of_a_derived_file_never_sees_a_half_written_one(tmp_path: Path) -> None:
    log = FileStore(tmp_path).open(KEY)
    with log.locked():
        log.files.save("context/pack.md", b"old" * 4000)
        with (log.directory / "context/pack.md").open("rb") as reader:
            log.files.save("context/pack.md", b"new" * 2000)
            assert reader.read() == b"old" * 4000
    assert log.files.load("context/pack.md") == b"new" * 2000


def test_the_files_of_the_cache_are_written_in_place(tmp_path: Path) -> None:
    log = FileStore(tmp_path).open(KEY)
    with log.locked():
        log.files.save(f"{CACHE}/0", b"old" * 4000)
        before = (log.directory / CACHE / "0").stat().st_ino
        log.files.save(f"{CACHE}/0", b"new" * 2000)
    assert log.files.load(f"{CACHE}/0") == b"new" * 2000
    assert (log.directory / CACHE / "0").stat().st_ino == before
