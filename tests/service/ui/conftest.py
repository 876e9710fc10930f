"""A store with the demo's session, for all tests of the page in one process."""

from pathlib import Path

import pytest

from ctxwrap.cli.demo import FILES, make_session
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    files = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        Path(files, name).write_text(text)
    store = open_store(str(tmp_path_factory.mktemp("demo") / "home"))
    for _ in make_session(store, "demo", str(files / "working-set.yml")):
        pass
    return store
