"""Archives: a session goes to any other store and is the same there; nothing else gets in."""

import hashlib
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.cli import main
from ctxwrap.errors import InvalidArchive, NotFound, SettingsError, StoreCorrupt, StoreUnavailable
from ctxwrap.export.archive import ArchiveLimits, export_session, import_session
from ctxwrap.export.archive.format import MANIFEST
from ctxwrap.inspect import details_of
from ctxwrap.session.inputs import Inputs
from ctxwrap.session.session import Session
from ctxwrap.session.verify import verify
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileLog, FileStore
from ctxwrap.stores.files.tree import FileTree
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from ctxwrap.types import Record, SessionKey
from tests.conversations import converse, directory_of
from tests.support import Told, examples

KEY = SessionKey("default", "default", "s")
OTHER = SessionKey("acme", "helper", "s")
PINNED = {"context/pinned/system.md": b"Be kind.", "context/pinned/sub/Notes for Ada ☕.md": b"\xff\x00"}
INPUTS = {**PINNED, "context/budget": b"8000\n", "context/gc.policy": b"pack_ttl=1d\n"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation, with things that somebody put beside it, that no test may change."""
    home = tmp_path_factory.mktemp("original")
    with Provider(Told()) as provider:
        converse(provider, home, turns=25)
    for name, data in INPUTS.items():
        path = directory_of(home) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return home


@pytest.fixture(scope="module")
def exported(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its archive, which no test may change either."""
    file = tmp_path_factory.mktemp("archives") / "s.zip"
    export_session("s", file, store=original)
    return file


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "home-of-sessions"))


@pytest.fixture(params=["files", "memory"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FileStore(tmp_path / "elsewhere") if request.param == "files" else MemoryStore()


def records(store: Store, key: SessionKey, stream: str) -> list[Record]:
    """What a stream says, without what only its store needs."""
    return [
        {**record, "ctx": {name: value for name, value in record["ctx"].items() if name not in ("c", "b", "w")}}
        for record in store.open(key).read(stream)[0]
    ]


def files(store: Store, key: SessionKey) -> dict[str, bytes | None]:
    beside = store.open(key).files
    log = ("meta.json", "messages.jsonl", "events.jsonl")
    found = {entry.name: beside.load(entry.name) for entry in beside.entries() if entry.name not in log}
    pack = json.loads(found.get("context/pack.json") or b"{}")
    nobody = {name: value for name, value in pack.items() if name not in ("session", "agent")}
    return found | ({"context/pack.json": json.dumps(nobody).encode()} if pack else {})


def members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


# --- there and back -------------------------------------------------------------------------------------


def test_imported_session_equals_the_original(original: Path, exported: Path, elsewhere: Store) -> None:
    told: list[tuple[int, int]] = []
    imported = import_session(
        exported,
        store=elsewhere,
        tenant="acme",
        agent="helper",
        trusted=True,
        progress=lambda done, all: told.append((done, all)),
    )
    assert (imported.key, imported.origin) == (OTHER, KEY)
    here = FileStore(original)
    for stream in ("messages", "events"):
        assert records(elsewhere, OTHER, stream) == records(here, KEY, stream)
        assert len(records(elsewhere, OTHER, stream)) == getattr(imported, stream)
    assert files(elsewhere, OTHER).items() >= INPUTS.items()
    carried = {name: data for name, data in files(here, KEY).items() if name != "cwd"}
    assert files(elsewhere, OTHER) == carried
    assert details_of(elsewhere, OTHER) == details_of(here, KEY)
    assert verify("s", store=elsewhere, tenant="acme", agent="helper").findings == ()
    assert told[-1][0] == told[-1][1]


def test_imported_session_can_be_continued(exported: Path, provider: Provider, tmp_path: Path) -> None:
    import_session(exported, store=tmp_path, session="Other / name")
    before = len(records(FileStore(tmp_path), KEY._replace(session="Other / name"), "messages"))
    converse(provider, tmp_path, "Other / name", turns=2)
    verification = verify("Other / name", store=tmp_path)
    assert verification.findings == ()
    assert verification.messages > before


def test_archive_has_only_the_members_of_its_manifest(original: Path, exported: Path) -> None:
    held = members(exported)
    manifest = json.loads(held[MANIFEST])
    assert manifest["key"] == KEY._asdict()
    assert (manifest["version"], manifest["damage"], manifest["left_out"]) == (1, [], [])
    assert manifest["members"].keys() == held.keys() - {MANIFEST}
    for name, member in manifest["members"].items():
        assert member == {"sha256": hashlib.sha256(held[name]).hexdigest(), "bytes": len(held[name])}
    raw = {f"raw/{path.name}" for path in (directory_of(original) / "raw").iterdir()}
    assert held.keys() == {MANIFEST, "messages.jsonl", "events.jsonl", *INPUTS, *raw}
    for line in held["messages.jsonl"].splitlines():
        assert not {"c", "b", "w"} & json.loads(line)["ctx"].keys()


def test_archive_file_is_private_to_its_owner(exported: Path) -> None:
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    assert [path.name for path in exported.parent.iterdir()] == ["s.zip"]


def test_a_file_is_overwritten_only_on_request(original: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.zip"
    file.write_text("mine")
    with pytest.raises(SettingsError, match="already exists"):
        export_session("s", file, store=original)
    assert file.read_text() == "mine"
    export_session("s", file, store=original, overwrite=True)
    assert zipfile.is_zipfile(file)


def test_file_created_during_an_export_is_not_overwritten(original: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.zip"
    with pytest.raises(SettingsError, match="already exists"):
        export_session("s", file, store=original, progress=lambda done, total: file.write_text("mine") and None)
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]


def test_failed_export_leaves_no_file(original: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_session("s", tmp_path / "s.zip", store=original, progress=stop)
    with pytest.raises(StoreUnavailable, match="cannot write"):
        export_session("s", tmp_path / "nowhere" / "s.zip", store=original)
    with pytest.raises(NotFound):
        export_session("nobody", tmp_path / "s.zip", store=original)
    assert list(tmp_path.iterdir()) == []


def test_export_of_highly_compressible_text_can_be_imported(tmp_path: Path) -> None:
    store = MemoryStore()
    event = {"type": "rules", "text": "x" * 3_000_000, "ctx": {"v": 1, "seq": 1}}
    store.open(KEY).append({"events": [event]})
    export_session("s", tmp_path / "s.zip", store=store)
    with zipfile.ZipFile(tmp_path / "s.zip") as archive:
        assert archive.getinfo("events.jsonl").compress_type == zipfile.ZIP_STORED
    import_session(tmp_path / "s.zip", store=store, session="t")
    assert records(store, KEY._replace(session="t"), "events") == [event]


def test_foreign_log_lines_are_exported_and_marked(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    log = store.open(KEY)
    with log.locked():
        log.append({"messages": [{"role": "user", "content": "ours", "ctx": {"v": 1, "seq": 1}}]})
    with (directory_of(tmp_path) / "messages.jsonl").open("ab") as stream:
        stream.write(b'{"role":"user","content":"by hand"}\n')
    export_session("s", tmp_path / "s.zip", store=store)
    import_session(tmp_path / "s.zip", store=store, session="t")
    assert records(store, KEY._replace(session="t"), "messages")[1] == {
        "role": "user",
        "content": "by hand",
        "ctx": {"v": 1, "unchecked": True},
    }
    assert verify("t", store=store).unchecked == 1


def test_files_with_unportable_names_are_left_out_and_reported(home: Path, tmp_path: Path) -> None:
    (directory_of(home) / "context" / "pinned" / "a\\b").write_text("x")
    (directory_of(home) / "context" / "pinned" / "a\nb").write_text("x")
    done = export_session("s", tmp_path / "s.zip", store=home)
    assert done.left_out == ("'context/pinned/a\\nb'", "'context/pinned/a\\\\b'")
    import_session(tmp_path / "s.zip", store=MemoryStore())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.lists(
    st.builds(
        lambda said, control: {**said, "ctx": {**control, "v": 1}},
        st.dictionaries(st.text().filter(lambda name: name != "ctx"), JSON, max_size=4),
        st.dictionaries(st.text(min_size=2).filter(lambda name: name not in ("blob", "blobs")), JSON, max_size=3),
    ),
    max_size=4,
)


@examples(40)
@given(RECORDS, RECORDS, st.text(min_size=1, max_size=20), st.data())
def test_any_records_survive_export_and_import(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Record], events: list[Record], session: str, data: Any
) -> None:
    if not messages and not events:
        return
    directory = tmp_path_factory.mktemp("any")
    stores: list[Store] = [FileStore(directory / "here"), MemoryStore()]
    source, target = data.draw(st.permutations(stores))
    key = KEY._replace(session=session)
    log = source.open(key)
    with log.locked():
        log.append({"messages": messages, "events": events})
    export_session(session, directory / "s.zip", store=source, incomplete=True)
    import_session(directory / "s.zip", store=target)
    assert records(target, key, "messages") == records(source, key, "messages") == messages
    assert records(target, key, "events") == records(source, key, "events") == events


# --- damage, and existing targets ---------------------------------------------------------------------


def test_a_damaged_session_is_exported_only_on_request(home: Path, tmp_path: Path) -> None:
    path = directory_of(home) / "messages.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:500] + b"#" + data[501:])
    raw = sorted((directory_of(home) / "raw").iterdir())[0]
    raw.unlink()
    with pytest.raises(StoreCorrupt, match=r"is damaged: messages\.jsonl, line"):
        export_session("s", tmp_path / "s.zip", store=home)
    assert not (tmp_path / "s.zip").exists()
    done = export_session("s", tmp_path / "s.zip", store=home, incomplete=True)
    assert done.damage[-1] == f"raw/{raw.name}: it is missing"
    assert json.loads(members(tmp_path / "s.zip")[MANIFEST])["damage"] == list(done.damage)
    elsewhere = MemoryStore()
    assert import_session(tmp_path / "s.zip", store=elsewhere).damage == done.damage
    assert len(records(elsewhere, KEY, "messages")) == done.messages == data.count(b"\n") - 1
    assert verify("s", store=elsewhere).is_damaged


def test_import_does_not_change_an_existing_session(original: Path, exported: Path) -> None:
    before = everything(original)
    with pytest.raises(SettingsError, match="there is already a session 's' of tenant 'default' and agent 'default'"):
        import_session(exported, store=original)
    assert everything(original) == before


def everything(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("stops_at", ["content", "events", "messages", "rebuild"])
def test_interrupted_import_can_be_repeated(
    exported: Path, tmp_path: Path, stops_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(owner: type, name: str, when: Callable[..., bool]) -> None:
        works = getattr(owner, name)

        def fails(self: Any, *arguments: Any, **named: Any) -> Any:
            if when(*arguments):
                raise OSError(28, "No space left on device")
            return works(self, *arguments, **named)

        monkeypatch.setattr(owner, name, fails)

    if stops_at == "content":
        failing(FileTree, "save", lambda name, data: name.startswith("raw/"))
    elif stops_at == "rebuild":
        failing(Session, "rebuild", lambda: True)
    else:
        failing(FileLog, "append", lambda batches: stops_at in batches)
    if stops_at == "rebuild":
        import_session(exported, store=tmp_path)
    else:
        with pytest.raises(StoreUnavailable, match=r"repeat it: .*No space left on device"):
            import_session(exported, store=tmp_path)
    monkeypatch.undo()
    if stops_at == "messages":
        assert verify("s", store=tmp_path).is_damaged, "half a session must not look whole"
    if stops_at == "rebuild":
        assert not verify("s", store=tmp_path).is_damaged
        return
    import_session(exported, store=tmp_path)
    assert verify("s", store=tmp_path).findings == ()


def test_import_does_not_complete_a_different_partial_session(exported: Path, tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    log = store.open(KEY)
    with log.locked():
        log.append({"events": [{"type": "agent.stop", "ctx": {"v": 1}}]})
    with pytest.raises(SettingsError, match="already"):
        import_session(exported, store=store)


# --- hostile archives -----------------------------------------------------------------------------------

Edit = Callable[[dict[str, bytes]], None]


def made(file: Path, held: dict[str, bytes], *, honest: bool = True, **how: Any) -> Path:
    """An archive of these members; its manifest is made to fit unless it is to lie."""
    held = dict(held)
    if honest and MANIFEST in held:
        manifest = json.loads(held[MANIFEST])
        manifest["members"] = {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for name, data in held.items()
            if name != MANIFEST
        }
        for stream in ("messages", "events"):
            manifest[stream] = held.get(f"{stream}.jsonl", b"").count(b"\n")
        held[MANIFEST] = json.dumps(manifest).encode()
    with zipfile.ZipFile(file, "w", how.pop("packed", zipfile.ZIP_DEFLATED)) as archive:
        for name, data in held.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = archive.compression
            info.external_attr = how.get("modes", {}).get(name, stat.S_IFREG | 0o600) << 16
            archive.writestr(info, data)
    return file


def refused(file: Path, root: Path, match: str, limits: ArchiveLimits | None = None) -> None:
    """The archive is refused in one sentence, by every kind of store, and nothing is there that was not."""
    before = everything(root)
    listing = sorted(root.rglob("*"))
    with pytest.raises(InvalidArchive, match=match):
        import_session(file, store=root / "store", limits=limits)
    memory = MemoryStore()
    with pytest.raises(InvalidArchive):
        import_session(file, store=memory, limits=limits)
    assert list(memory.keys()) == []
    assert everything(root) == before
    assert sorted(root.rglob("*")) == listing


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/passwd",
        "raw/../../evil",
        "raw/sha256-" + "0" * 55,
        "raw/sha256-" + "G" * 56,
        "context/pinned/../../../evil",
        "context/pinned/.hidden",
        "context/pinned/",
        "context/pinned//x",
        "context/pinned/./x",
        "context/pinned/a\\..\\b",
        "context/pinned/a\nb",
        "context/summary.md",
        "context/pinned",
        "context/budget/x",
        "meta.json",
        ".lock",
        "C:\\evil",
        "evil\0.md",
        "context/pinned/\0",
    ],
)
def test_member_names_outside_a_session_are_rejected(exported: Path, tmp_path: Path, name: str) -> None:
    file = made(tmp_path / "x.zip", {**members(exported), name: b"x"})
    refused(file, tmp_path, "does not belong in a session archive")


def test_member_that_is_both_file_and_directory_is_rejected(exported: Path, tmp_path: Path) -> None:
    held = {**members(exported), "context/pinned/a": b"x", "context/pinned/a/b": b"x"}
    refused(made(tmp_path / "x.zip", held), tmp_path, "is inside a member that is a file")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR, stat.S_IFBLK, stat.S_IFSOCK])
def test_links_and_special_files_are_refused(exported: Path, tmp_path: Path, kind: int) -> None:
    modes = {"context/budget": kind | 0o777}
    refused(made(tmp_path / "x.zip", members(exported), modes=modes), tmp_path, "is not a regular file")


def test_duplicate_members_are_rejected(exported: Path, tmp_path: Path) -> None:
    file = made(tmp_path / "x.zip", members(exported))
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("context/budget", b"8000\n")
    refused(file, tmp_path, "two members 'context/budget'")


def test_zip_bombs_are_rejected_before_unpacking(exported: Path, tmp_path: Path) -> None:
    held, zeros = members(exported), b"0" * (2 << 20)
    bomb = made(tmp_path / "ratio.zip", {**held, "context/pinned/zeros": zeros})
    refused(bomb, tmp_path, "more than 200 times its packed size")
    plain = made(tmp_path / "size.zip", {**held, "context/pinned/zeros": zeros}, packed=zipfile.ZIP_STORED)
    refused(plain, tmp_path, "is larger than 1000000 bytes", ArchiveLimits(member_bytes=1_000_000))
    refused(plain, tmp_path, "it is larger than 1000000 bytes", ArchiveLimits(bytes=1_000_000))
    small = made(tmp_path / "total.zip", held)
    refused(small, tmp_path, "it holds more than 100000 bytes", ArchiveLimits(bytes=100_000))
    many = made(tmp_path / "many.zip", {**held, **{f"context/pinned/{at}": b"" for at in range(300)}})
    refused(many, tmp_path, "members, more than 200", ArchiveLimits(members=200))
    refused(many, tmp_path, "it has more than 20 members", ArchiveLimits(members=20))
    refused(small, tmp_path, "is longer than 100 bytes", ArchiveLimits(line_bytes=100))


def test_member_with_a_false_size_is_rejected(exported: Path, tmp_path: Path) -> None:
    """A directory that calls a large member small."""
    file = made(tmp_path / "x.zip", {**members(exported), "context/pinned/zeros": b"0" * (2 << 20)})
    data, size = file.read_bytes(), (2 << 20).to_bytes(4, "little")
    assert data.count(size) == 2
    file.write_bytes(data.replace(size, (1000).to_bytes(4, "little")))
    refused(file, tmp_path, "not a complete zip|does not match its digest")


@pytest.mark.parametrize("left", [0, 10, 1000, -1, -22, -100, -4000])
def test_truncated_archive_is_rejected(exported: Path, tmp_path: Path, left: int) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes(exported.read_bytes()[:left])
    refused(file, tmp_path, "not a zip|not a complete zip")


def test_every_changed_byte_is_detected(exported: Path, tmp_path: Path) -> None:
    """Every change is refused, or changes nothing of what the session says."""
    data, file = exported.read_bytes(), tmp_path / "x.zip"
    right = MemoryStore()
    import_session(exported, store=right)
    for at in range(0, len(data), max(1, len(data) // 150)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        store = MemoryStore()
        try:
            import_session(file, store=store, session="s")
        except InvalidArchive:
            assert list(store.keys()) == []
        else:
            assert records(store, KEY, "messages") == records(right, KEY, "messages")
            assert files(store, KEY) == files(right, KEY)


def lied(held: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    return {**held, MANIFEST: json.dumps({**json.loads(held[MANIFEST]), **changes}).encode()}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"version": 2}, "import it with a newer ctxwrap"),
        ({"version": None}, "import it with a newer ctxwrap"),
        ({"format": "other"}, "another format"),
        ({"key": {"tenant": "t", "agent": "a", "session": ""}}, "manifest is damaged: a session id must be"),
        ({"key": {"tenant": "t", "agent": "a", "session": "x" * 2000}}, "must not be longer"),
        ({"key": "s"}, "manifest is damaged"),
        ({"messages": -1}, "manifest is damaged"),
        ({"messages": 3}, "and its manifest says 3"),
        ({"damage": "none"}, "manifest is damaged"),
        ({"members": []}, "manifest is damaged"),
        ({"members": {}}, "its manifest and its members disagree"),
    ],
)
def test_invalid_archive_manifest_is_rejected(
    exported: Path, tmp_path: Path, changes: dict[str, Any], match: str
) -> None:
    refused(made(tmp_path / "x.zip", lied(members(exported), **changes), honest=False), tmp_path, match)


def test_members_that_differ_from_the_manifest_are_rejected(exported: Path, tmp_path: Path) -> None:
    held = members(exported)
    for name in held.keys() - {MANIFEST}:
        changed = {**held, name: held[name] + b" "}
        refused(made(tmp_path / "x.zip", changed, honest=False), tmp_path, "does not match its digest|not valid JSON")
        without = {other: data for other, data in held.items() if other != name}
        refused(made(tmp_path / "x.zip", without, honest=False), tmp_path, "its manifest and its members disagree")
    for name in ("messages.jsonl", MANIFEST):
        without = {other: data for other, data in held.items() if other != name}
        refused(made(tmp_path / "x.zip", without), tmp_path, "is missing|has no manifest")


def with_line(held: dict[str, bytes], line: bytes, stream: str = "events") -> dict[str, bytes]:
    return {**held, f"{stream}.jsonl": held[f"{stream}.jsonl"] + line + b"\n"}


BLOB = {"id": "sha256-" + "0" * 56, "digest": "sha256:" + "0" * 64, "bytes": 1, "form": "text"}


@pytest.mark.parametrize(
    ("line", "match"),
    [
        (b"[" * 100_000, "not valid JSON"),
        (b'{"x":' + b"[" * 200 + b"]" * 200 + b"}", "nested more deeply than 128"),
        (b'{"x":' * 200 + b"1" + b"}" * 200, "nested more deeply than 128"),
        (b"[]", "is not a record"),
        (b'"text"', "is not a record"),
        (b'{"ctx":1}', "is not a record"),
        (b"", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        ('{"x":1}'.encode("utf-16"), "not valid JSON"),
        (b'{"x":' + b"9" * 5000 + b"}", "not valid JSON"),
        (json.dumps({"ctx": {"blob": BLOB}}).encode(), "which is missing"),
        (json.dumps({"ctx": {"blobs": [{**BLOB, "id": "../../../evil"}]}}).encode(), "not the name of a content"),
    ],
)
def test_invalid_log_records_are_rejected(exported: Path, tmp_path: Path, line: bytes, match: str) -> None:
    refused(made(tmp_path / "x.zip", with_line(members(exported), line)), tmp_path, match)


def test_content_with_a_wrong_name_or_digest_is_rejected(exported: Path, tmp_path: Path) -> None:
    held = members(exported)
    name = next(name for name in held if name.startswith("raw/"))
    swapped = {**held, name: b"something else"}
    refused(made(tmp_path / "x.zip", swapped), tmp_path, "does not match the digest in its name")
    line = json.dumps({"ctx": {"blob": {**BLOB, "id": name.removeprefix("raw/")}}}).encode()
    refused(made(tmp_path / "x.zip", with_line(held, line)), tmp_path, "with a different digest")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "start", "run": "x", "runtime": {"round": 1e400, "datetime": "", "startup_at": ""}},
        {"type": "start", "run": "x", "runtime": None},
        {"type": "snapshot", "operations": [{"kind": "add"}], "round": "x"},
        {"type": "summary", "ctx": {"seq": True, "id": 5, "turn": [], "time": 7}},
        {"type": "agent.child.result", "child": "../../evil", "result": 1},
    ],
)
def test_meaningless_records_are_imported_without_effect(
    exported: Path, tmp_path: Path, event: Record, elsewhere: Store
) -> None:
    held = with_line(members(exported), json.dumps(event).encode())
    import_session(made(tmp_path / "x.zip", held), store=elsewhere)
    assert details_of(elsewhere, KEY)["round"] > 1
    verify("s", store=elsewhere)


def test_path_that_is_not_a_regular_file_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArchive, match="not a regular file"):
        import_session(tmp_path / "pipe", store="memory:")
    with pytest.raises(NotFound, match="there is no file"):
        import_session(tmp_path / "nothing", store="memory:")
    with pytest.raises((NotFound, InvalidArchive)):
        import_session(tmp_path, store="memory:")


def test_archive_key_cannot_select_another_tenant(original: Path, exported: Path, tmp_path: Path) -> None:
    held = members(exported)
    key = {"tenant": "victim", "agent": "default", "session": "s"}
    file = made(tmp_path / "x.zip", lied(held, key=key))
    store = MemoryStore()
    import_session(file, store=store, tenant="mallory")
    assert list(store.keys()) == [KEY._replace(tenant="mallory")]


# --- the commands ---------------------------------------------------------------------------------------


def test_commands_export_and_import_a_session(original: Path, tmp_path: Path) -> None:
    file, there = str(tmp_path / "s.zip"), str(tmp_path / "there")
    result = command("export", "s", "-o", file, "--store", str(original))
    assert result.exit_code == 0, result.output
    assert f"{file}: " in result.output
    again = command("export", "s", "-o", file, "--store", str(original))
    assert again.exit_code == 1
    assert "--force" in again.output
    told = json.loads(command("export", "s", "-o", file, "--store", str(original), "--force", "--json").output)
    assert told["messages"] > 10
    result = command("import", file, "--store", there, "--tenant", "acme", "--session", "mine")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].startswith("session 'mine' of tenant 'acme': ")
    assert command("verify", "mine", "--store", there, "--tenant", "acme").output.splitlines()[-1] == "intact"
    told = json.loads(command("import", file, "--store", there, "--json").output)
    assert (told["key"]["session"], told["messages"]) == ("s", told["messages"])
    for arguments in (["--session", "mine", "--tenant", "acme"], ["--max-bytes", "100", "--session", "n"]):
        result = command("import", file, "--store", there, *arguments)
        assert result.exit_code == 1
        assert result.output.startswith("Error: ")
        assert "Traceback" not in result.output


# --- whose word it is -----------------------------------------------------------------------------------


def test_untrusted_archive_brings_no_operator_inputs(exported: Path, elsewhere: Store) -> None:
    imported = import_session(exported, store=elsewhere, tenant="acme", agent="helper")
    assert set(imported.left_out) == INPUTS.keys()
    assert not files(elsewhere, OTHER).keys() & INPUTS.keys()
    assert Inputs(elsewhere.open(OTHER).files).pinned == ()


def test_trusted_archive_brings_operator_inputs(exported: Path, elsewhere: Store) -> None:
    assert import_session(exported, store=elsewhere, tenant="acme", agent="helper", trusted=True).left_out == ()
    assert files(elsewhere, OTHER).items() >= INPUTS.items()


def test_import_command_has_a_trust_option(exported: Path, tmp_path: Path) -> None:
    where = ("--store", str(tmp_path / "there"))
    untrusted = command("import", str(exported), *where, "--session", "a")
    assert "not imported: context/pinned/system.md (--trust imports it)" in untrusted.output
    assert "not imported" not in command("import", str(exported), *where, "--session", "b", "--trust").output
    pinned = {path.parents[2].name for path in (tmp_path / "there").rglob("system.md")}
    assert pinned == {"b"}


def test_large_archive_needs_a_higher_limit(exported: Path, tmp_path: Path) -> None:
    many = {f"context/pinned/{at}": bytes(1 << 20) for at in range(128)}
    large = made(tmp_path / "large.zip", {**members(exported), **many})
    assert large.stat().st_size < 1 << 20
    refused(large, tmp_path, "holds more than 134217728 bytes: if you trust it, allow more with .*--max-bytes")
    result = command("import", str(large), "--store", str(tmp_path / "s"), "--max-bytes", str(140 << 20))
    assert result.exit_code == 0
