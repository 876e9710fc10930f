"""Many users of the backend at once, in a process of their own: `load.py URL USERS MESSAGES SEED`.

Each line that it prints is what one user saw of one answer, or of the history in the end, as JSON.
"""

import asyncio
import json
import random
import sys
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from tests.examples.sse import Events

PASSWORD = "swordfish"
PATIENCE = 60.0
LEAVING = 0.2
"""The share of answers that are not heard to their end."""

MODES = (*["enabled"] * 5, "readonly", "shadow", "disabled")


@dataclass
class Heard:
    """What a user saw of one answer."""

    user: int
    text: str
    mode: str
    answer: str = ""
    accepted: bool = False
    done: bool = False
    left: bool = False
    """Whether the user left before the end, as they meant to."""
    error: str = ""


def name_of(user: int) -> str:
    return f"user{user}"


def secret_of(user: int, seed: int) -> str:
    """A word that only this user says."""
    return f"secret-{user}-{random.Random(f'{seed}/{user}').getrandbits(64):016x}"


def token_of(user: int, number: int) -> str:
    return f"m-{user}-{number}"


_MOST_TRIES = 200


class User:
    def __init__(self, url: str, user: int, seed: int) -> None:
        self.user, self.seed = user, seed
        self._choice = random.Random(f"{seed}-{user}")
        self._http = httpx.AsyncClient(base_url=url, timeout=PATIENCE, verify=False, trust_env=False)

    async def _sign_in(self) -> None:
        """As a browser would: who is told that too many do so comes back."""
        for _ in range(_MOST_TRIES):
            answer = await self._http.post("/sign-in", json={"name": name_of(self.user), "password": PASSWORD})
            if answer.status_code != 503:
                break
            await asyncio.sleep(self._choice.uniform(0.2, 1.0))
        assert answer.status_code == 204, answer.text

    async def talk(self, messages: int) -> None:
        await self._sign_in()
        for number in range(messages):
            told = f" My secret word is {secret_of(self.user, self.seed)}." if number == 0 else " What do you know?"
            mode = (
                "enabled" if number == 0 else self._choice.choice(["enabled"] * 5 + ["readonly", "shadow", "disabled"])
            )
            tell(await self._heard(Heard(self.user, token_of(self.user, number) + told, mode)))
        print(json.dumps({"user": self.user, "history": await self._history()}), flush=True)
        await self._http.aclose()

    async def _heard(self, heard: Heard) -> Heard:
        leaves_after = self._choice.randrange(12) if self._choice.random() < LEAVING else None
        try:
            async with self._http.stream(
                "POST", "/chat", json={"text": heard.text, "contextMode": heard.mode}
            ) as response:
                assert response.status_code == 200, response.status_code
                await self._listen(response, heard, leaves_after)
        except httpx.TransportError as error:
            heard.error = type(error).__name__
        return heard

    async def _listen(self, response: httpx.Response, heard: Heard, leaves_after: int | None) -> None:
        """Hear so many events, or all: who leaves after none may have been heard by nobody."""
        count = 0
        if leaves_after == 0:
            heard.left = True
            return
        async for event in Events().of_async(response.aiter_lines()):
            heard.accepted |= event.name == "accepted"
            heard.done |= event.name == "done"
            heard.answer += event.data.get("text", "")
            heard.error += event.data.get("code", "")
            count += 1
            if count == leaves_after and not heard.done:
                heard.left = True
                return

    async def _get(self, path: str, parameters: dict[str, Any]) -> httpx.Response:
        """What a worker answers; if it dies meanwhile, what the next one does."""
        try:
            return await self._http.get(path, params=parameters)
        except httpx.TransportError:
            return await self._http.get(path, params=parameters)

    async def _history(self) -> str:
        pages, before = [], ""
        while True:
            parameters: dict[str, Any] = {"limit": 50, **({"before": before} if before else {})}
            answer = await self._get("/history", parameters)
            assert answer.status_code == 200, answer.text
            pages.append(answer.text)
            before = answer.json()["before"]
            if not before:
                return "\n".join(pages)


def tell(heard: Heard) -> None:
    print(json.dumps(asdict(heard)), flush=True)


async def main(url: str, users: int, messages: int, seed: int) -> None:
    async with asyncio.TaskGroup() as group:
        for user in range(users):
            group.create_task(User(url, user, seed).talk(messages))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
