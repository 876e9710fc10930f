"""Settings from environment variables, validated once; an error names the variable."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from .passwords import demo_users, users_in

PREFIX = "CHAT_"


class Settings(BaseModel):
    """Each field is read from the variable `CHAT_` + its name in capitals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str = Field("backend-sessions", min_length=1, repr=False)
    api_key: SecretStr = SecretStr("")
    base_url: str = Field("https://api.openai.com/v1", pattern="^https?://")
    model: str = Field("gpt-5", min_length=1)
    secret: SecretStr = Field(min_length=32)
    users: Path | None = None
    origin: str = Field("", pattern=r"^(https?://[^/]+)?$")
    budget: int = Field(32_000, ge=0)
    busy_seconds: float = Field(30, gt=0)
    workers: int = Field(2, ge=1)
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65_535)
    drain_seconds: float = Field(0, ge=0)
    shutdown_seconds: int = Field(30, ge=1)

    @property
    def is_practice(self) -> bool:
        """Whether the local practice model is used; only then may there be demo users."""
        return not self.api_key.get_secret_value()

    def known_users(self) -> Mapping[str, str]:
        """Names and password hashes of the users who may sign in."""
        if self.users is not None:
            return users_in(self.users.read_text())
        if not self.is_practice:
            raise ValueError("a users file is required with a real model: see README.md")
        return demo_users()


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    given = {name.removeprefix(PREFIX).lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
    try:
        settings = Settings.model_validate(given)
    except ValidationError as error:  # its own message contains the given values, which may be secrets
        raise SystemExit("\n".join(f"{_variable(each['loc'])}: {each['msg']}" for each in error.errors())) from None
    try:
        settings.known_users()
    except (OSError, ValueError) as error:
        raise SystemExit(f"{PREFIX}USERS: {error}") from None
    return settings


def _variable(location: tuple[int | str, ...]) -> str:
    return f"{PREFIX}{str(location[0]).upper()}"
