"""What goes back to a client, and how a request is read to find it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from ctxwrap.practice.answer import JSON, Failure
from ctxwrap.practice.apis import Event
from ctxwrap.practice.ask import Seen

_PREFIX = re.compile(r"(?:/openai/deployments/[^/]+|/openai/v1|/openai|/v1)(?=/)")


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole JSON body."""

    body: JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    gzip: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """Events, made while they are sent."""

    events: Iterator[Event]
    headers: Mapping[str, str] = field(default_factory=dict)
    gzip: bool = False


class Refused(Exception):
    """The request gets `failure` instead of an answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def path_of(seen: Seen) -> str:
    """The path without what comes before an API's own: a version, or an Azure deployment."""
    return unquote(_PREFIX.sub("", urlsplit(seen.path).path, count=1))


def query_of(seen: Seen) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(seen.path).query).items()}


def body_of(seen: Seen) -> JSON:
    try:
        body = json.loads(seen.body)
    except (ValueError, RecursionError):
        raise Refused(Failure(400, "We could not parse the JSON body of your request.")) from None
    if not isinstance(body, dict):
        raise Refused(Failure(400, "The body of your request must be a JSON object."))
    return body


def speaks_anthropic(seen: Seen) -> bool:
    return "anthropic-version" in seen.headers or path_of(seen).startswith("/messages")


def listing(items: list[JSON]) -> JSON:
    """One page that holds all there is."""
    first, last = (items[0].get("id"), items[-1].get("id")) if items else (None, None)
    return {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": False}
