"""A place for tests that make and remove many files."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_IN_MEMORY = "/dev/shm"


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory in memory where there is such a thing."""
    place = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as path:
        yield Path(path)
