"""Sends requests to upstreams with aiohttp, which spends less than half of httpx's CPU time on a stream."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from yarl import URL

_LARGEST_HEADER = 1 << 16
_ADDED_BY_AIOHTTP = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class UpstreamTransport(httpx.AsyncBaseTransport):
    """Sends a request as it is, and gives the response as it comes: nothing is added, followed or decompressed.

    As with httpx, the environment names proxies (`HTTPS_PROXY`, `NO_PROXY`) and certificates (`SSL_CERT_FILE`).
    """

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._proxies = getproxies()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._session is None:
            self._session = _new_session()  # it belongs to the running loop
        limits = request.extensions["timeout"]
        with _errors_of_httpx():
            response = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
                data=await request.aread() or None,
                allow_redirects=False,
                proxy=self._proxy_to(request.url),
                timeout=aiohttp.ClientTimeout(sock_connect=limits["connect"], sock_read=limits["read"]),
            )
        return httpx.Response(response.status, headers=response.raw_headers, stream=_ResponseStream(response))

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _proxy_to(self, url: httpx.URL) -> str | None:
        return self._proxies.get(url.scheme) if self._proxies and not proxy_bypass(url.host) else None


class _ResponseStream(httpx.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            while chunk := await self._response.content.readany():
                yield chunk

    async def aclose(self) -> None:
        """Close the connection, unless the response is complete and others may use it."""
        self._response.close()


def _new_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=httpx.create_ssl_context()),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_ADDED_BY_AIOHTTP,
        max_line_size=_LARGEST_HEADER,
        max_field_size=_LARGEST_HEADER,
    )


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise httpx.TimeoutException(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError(str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx.ReadError(str(error)) from error
