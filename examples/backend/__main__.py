"""`python -m backend` serves; `python -m backend hash NAME` prints a line for the users file."""

import getpass
import os
import secrets
import sys

import uvicorn

from .passwords import hashed
from .settings import PREFIX, from_environment


def main(arguments: list[str]) -> None:
    match arguments:
        case []:
            serve()
        case ["hash", name]:
            print(f"{name}:{hashed(getpass.getpass())}")
        case _:
            raise SystemExit(__doc__)


def serve() -> None:
    if not os.environ.get(f"{PREFIX}API_KEY"):  # practice mode: one random secret, inherited by all workers
        os.environ.setdefault(f"{PREFIX}SECRET", secrets.token_hex())
    settings = from_environment()
    uvicorn.run(
        f"{__package__}.app:app",
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )


if __name__ == "__main__":  # the workers import this module as well
    main(sys.argv[1:])
