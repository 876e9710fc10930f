"""A server over HTTP for many tests, with tokens of two tenants."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.service.mcp.doors import TOKENS, http_server


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.touch(0o600)
    path.write_text("# who may come in\n\n" + "".join(f"{token}={tenant}\n" for token, tenant in TOKENS.items()))
    return path


@pytest.fixture(scope="session")
def url(shared_home: Path, token_file: Path) -> Iterator[str]:
    with http_server(shared_home, "--token-file", str(token_file)) as (url, _):
        yield url


@pytest.fixture(scope="session")
def port(url: str) -> int:
    return urlsplit(url).port or 0
