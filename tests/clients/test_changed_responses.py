"""A response whose reply was changed is one of its HTTP library, as if the provider had sent the changed reply."""

import asyncio
import json
import pickle
from datetime import timedelta
from typing import Any

import httpx
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.clients.responses import rewrite
from ctxwrap.encoding import encode_json
from ctxwrap.types import Body

JSON = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
HEADERS = {"Content-Type": "application/json", "Content-Encoding": "identity", "set-cookie": "a=b", "X-Id": "7"}
LIBRARIES: Any = pytest.mark.parametrize("library", [httpx, httpx2])


class OtherReply:
    """A call whose reply is `reply`, whatever comes."""

    observes = False

    def __init__(self, reply: Body) -> None:
        self._reply = reply

    def reply(self, payload: Body) -> Body:
        return self._reply


def changed(library: Any, reply: Body) -> tuple[Any, Any]:
    """The changed response, and what the library makes of the same bytes."""
    request = library.Request("POST", "http://provider/chat")
    received = library.Response(200, headers=HEADERS, content=b'{"id": "1"}', request=request)
    received.elapsed = timedelta(seconds=1)
    headers = [each for each in received.headers.raw if each[0].lower() not in (b"content-encoding", b"content-length")]
    made = library.Response(200, headers=headers, content=encode_json(reply), request=request)
    made.elapsed = received.elapsed
    return rewrite(received, OtherReply(reply)), made


def facts(response: Any, size: int) -> list[Any]:
    return [
        *(response.status_code, response.headers.raw, response.content, response.text, response.encoding),
        *(response.is_closed, response.is_stream_consumed, response.elapsed),
        *(response.read(), asyncio.run(response.aread()), response.request, response.url, dict(response.cookies)),
        *([*response.iter_bytes()], [*response.iter_bytes(size)], [*response.iter_text()], [*response.iter_lines()]),
        asyncio.run(_all_of(response.aiter_bytes(size))),
    ]


async def _all_of(chunks: Any) -> list[bytes]:
    return [chunk async for chunk in chunks]


@LIBRARIES
@given(JSON, st.integers(1, 9))
def test_changed_response_is_like_one_of_the_library(library: Any, reply: Body, size: int) -> None:
    response, made = changed(library, reply)
    assert type(response) is library.Response
    assert facts(response, size) == facts(made, size)
    assert response.json() == response.json() == made.json()
    assert response.num_bytes_downloaded == len(response.content)


@LIBRARIES
def test_content_may_be_kept_under_another_name(library: Any) -> None:
    class Response(library.Response):  # type: ignore[misc]
        def read(self) -> bytes:
            self._body = b"".join(self.stream)
            return self._body

        @property
        def content(self) -> bytes:
            return self._body

    received = Response(200, headers=HEADERS, content=b'{"id": "1"}', request=library.Request("POST", "http://a/b"))
    received.is_closed = True
    response = rewrite(received, OtherReply({"a": "é"}))
    assert (type(response), response.content) == (Response, encode_json({"a": "é"}))
    assert (response.is_closed, response.is_stream_consumed) == (True, True)


@LIBRARIES
def test_who_changes_the_json_changes_no_later_one(library: Any) -> None:
    response, _ = changed(library, {"choices": [{"text": "hello"}]})
    response.json()["choices"].clear()
    assert response.json() == json.loads(response.text) == {"choices": [{"text": "hello"}]}


@LIBRARIES
def test_options_of_the_decoder_count(library: Any) -> None:
    response, _ = changed(library, {"a": 1.5})
    assert response.json(parse_float=str) == {"a": "1.5"}


@LIBRARIES
def test_changed_response_can_be_pickled(library: Any) -> None:
    response, made = changed(library, {"a": "é"})
    kept = pickle.loads(pickle.dumps(response))
    assert type(kept) is library.Response
    assert (kept.content, kept.headers, kept.elapsed) == (made.content, made.headers, made.elapsed)
