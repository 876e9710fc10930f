"""Skips the search for cookies in responses that set none.

httpx makes objects of `urllib` and `email` of each request and response to search them, which takes a twentieth of a
call. httpx2 looks first whether there is a cookie.
"""

from functools import cache
from http.cookiejar import CookieJar
from typing import Any

from ctxwrap.providers import PROVIDERS

_KNOWN = frozenset({"builtins", "httpx", *(provider.sdk for provider in PROVIDERS)})
"""The packages whose clients have no use of their own for cookies."""


def without_cookie_search(client: Any) -> Any:
    """A view of an HTTP client that searches only responses with cookies; the client itself if its class is unknown.

    The two share all attributes: whatever is changed in one is changed in the other.
    """
    kind: Any = type(client)
    view_class = _view_class(kind)
    if view_class is None:
        return client
    view = object.__new__(view_class)
    view.__dict__ = client.__dict__
    return view


@cache
def _view_class(client_class: Any) -> Any:
    """The class of views of a client; None unless all its bases come from httpx and SDKs."""
    if not _KNOWN.issuperset(base.__module__.partition(".")[0] for base in client_class.__mro__):
        return None
    from httpx import Cookies

    class SkippingCookies(Cookies):
        def extract_cookies(self, response: Any) -> None:
            if "set-cookie" in response.headers or "set-cookie2" in response.headers:
                super().extract_cookies(response)

    def skipping(self: Any) -> Any:
        found = client_class.cookies.fget(self)
        is_plain = type(found) is Cookies and type(found.jar) is CookieJar
        return SkippingCookies(found.jar) if is_plain else found

    class View(client_class):  # type: ignore[misc]
        cookies = client_class.cookies.getter(skipping)

        def __del__(self) -> None:
            """A view does not close the client, as clients of SDKs do themselves."""

    return View
