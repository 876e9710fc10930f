"""Checking passwords: a few at once, in threads of their own, and no more waiting than there is room for."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException, Response

from examples.backend.app import SignIn, sign_in
from examples.backend.passwords import Checks, TooMany, demo_users


class Held(dict[str, str]):
    """Users that are looked up when the test says so."""

    def __init__(self) -> None:
        super().__init__(demo_users())
        self.open = threading.Event()
        self.threads: set[str] = set()

    def get(self, *name: Any) -> Any:
        self.threads.add(threading.current_thread().name.rpartition("_")[0])
        self.open.wait()
        return super().get(*name)


def test_password_check_beyond_the_queue_limit_is_refused_at_once() -> None:
    async def scenario() -> None:
        users, checks = Held(), Checks(at_once=1, waiting=2)
        try:
            under_way = [
                asyncio.ensure_future(checks.is_right("practice", users, name)) for name in ("ada", "bob", "eve")
            ]
            await asyncio.sleep(0)  # until each of them has begun
            with pytest.raises(TooMany):
                await checks.is_right("practice", users, "ada")
            here: Any = SimpleNamespace(checks=checks, signing=SimpleNamespace(users=users))
            with pytest.raises(HTTPException) as refused:
                await sign_in(SignIn(name="ada", password="practice"), here, Response())
            assert refused.value.status_code == 503
            assert refused.value.headers
            users.open.set()
            assert await asyncio.gather(*under_way) == [True, True, False]
            assert await checks.is_right("practice", users, "bob"), "there is room again"
            assert users.threads == {"sign-in"}
        finally:
            users.open.set()
            checks.close()

    asyncio.run(scenario())


def test_cancelled_password_check_does_not_free_its_slot_early() -> None:
    async def scenario() -> None:
        users, checks = Held(), Checks(at_once=1, waiting=0)
        try:
            first = asyncio.ensure_future(checks.is_right("practice", users, "ada"))
            while not users.threads:  # until a thread is at work on it
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})
            with pytest.raises(TooMany):
                await checks.is_right("practice", users, "ada")
        finally:
            users.open.set()
            checks.close()

    asyncio.run(scenario())
