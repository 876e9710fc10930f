"""Records by their numbers: a few are found without reading all, and whatever a file holds, as reading all tells."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import numbered
from ctxwrap.testing import KEY, numbered_record


def test_few_records_are_read_without_distant_records(tmp_path: Path) -> None:
    log = FileStore(tmp_path).open(KEY)
    with log.locked():
        for number in range(1, 4001):
            log.append({"messages": [numbered_record(number, "x" * 500)]})
    path = log.directory / "messages.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        b"".join(
            line if not at % 100 or 1800 < at < 2200 else b"?" * (len(line) - 1) + b"\n"
            for at, line in enumerate(lines, 1)
        )
    )
    found = log.between("messages", 1990, 2029)
    assert [record["ctx"]["seq"] for record in found] == list(range(1990, 2030))


LINES = st.one_of(
    st.integers(1, 4).map(lambda count: ("batch", count)),
    st.just(("by hand", 1)),
    st.just(("damaged", 1)),
    st.integers(1, 90).map(lambda size: ("large", size * 1024)),
)


@given(st.lists(LINES, max_size=30), st.integers(1, 60), st.integers(0, 30), st.booleans())
def test_seeking_returns_what_a_full_read_returns(
    steps: list[tuple[str, int]], first: int, more: int, torn: bool
) -> None:
    with TemporaryDirectory() as root:
        log, number = FileStore(root).open(KEY), 0
        path = log.directory / "messages.jsonl"
        for kind, size in steps:
            with log.locked():
                if kind in ("by hand", "damaged"):
                    with open(path, "ab") as file:
                        file.write(b'{"content": "by hand"}\n' if kind == "by hand" else b'{"ctx": {"seq": 3}}\n')
                    number += kind == "by hand"
                    continue
                filler, count = ("x" * size, 1) if kind == "large" else ("", size)
                log.append({"messages": [numbered_record(number + at, filler) for at in range(1, count + 1)]})
                number += count
        if torn and path.exists():
            path.write_bytes(path.read_bytes()[:-5])
        expected = [record for at, record in numbered(log.read("messages")[0]) if first <= at <= first + more]
        assert log.between("messages", first, first + more) == expected
