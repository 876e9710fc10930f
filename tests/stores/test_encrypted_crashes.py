"""What the store in files promises of crashes and power cuts holds for what is encrypted, and for the key it needs."""

from pathlib import Path

import pytest

from ctxwrap.stores.encrypted import EncryptedStore
from ctxwrap.stores.encrypted.log import EncryptedLog
from ctxwrap.stores.files.store import FileStore
from ctxwrap.types import SessionKey
from tests.stores import test_crashes as crashes
from tests.stores import work


class Log(EncryptedLog):
    directory: Path


class Store(EncryptedStore):
    """Tells where its sessions lie, as the tests of the store below want to know."""

    def __init__(self, root: Path) -> None:
        self._files = FileStore(root)
        super().__init__(self._files, "11" * 32)

    def open(self, key: SessionKey) -> Log:
        log = super().open(key)
        log.__class__ = Log
        assert isinstance(log, Log)
        log.directory = self._files.open(key).directory
        return log


@pytest.fixture(autouse=True)
def _encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tests, over an encrypted store."""
    for module in (crashes, work):
        monkeypatch.setattr(module, "FileStore", Store)


def test_a_kill_at_any_system_call_loses_nothing_acknowledged(quick_path: Path) -> None:
    crashes.test_a_kill_at_any_system_call_loses_nothing_acknowledged(quick_path)


def test_a_power_cut_at_any_moment_loses_nothing_acknowledged(quick_path: Path) -> None:
    crashes.test_a_power_cut_at_any_moment_loses_nothing_acknowledged(quick_path, 2)


def test_later_streams_and_files_survive_a_power_cut(quick_path: Path) -> None:
    crashes.test_later_streams_and_files_survive_a_power_cut(quick_path)


def test_refused_write_of_any_kind_loses_nothing_acknowledged(quick_path: Path) -> None:
    crashes.test_refused_write_of_any_kind_loses_nothing_acknowledged(quick_path)
