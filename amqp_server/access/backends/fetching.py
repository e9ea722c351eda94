"""Requests to HTTP servers that may be slow, down or lying: each is bounded."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTIONS_MAX: Final = 32
"""Connections to one server."""
_FORM: Final = "application/x-www-form-urlencoded"


class FetchError(Exception):
    """There is no answer, or one that is too long."""


class Fetched(NamedTuple):
    """The answer of a server.

    Attributes:
        status: Status code of HTTP.
        octets: Body.
    """

    status: int
    octets: bytes


class Fetcher:
    """Sends requests to one server. The event loop owns it.

    It follows no redirects, keeps no cookies, heeds no proxies of the environment, and unpacks
    nothing.

    Args:
        ca: PEM file of the authorities that sign certificates of HTTPS; empty: those of the system.

    Raises:
        OSError: The file cannot be read, or has no certificates.
    """

    def __init__(self, ca: str = "") -> None:
        self._tls = ssl.create_default_context(cafile=ca or None)
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Begin; the event loop runs."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=self._tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"accept-encoding": "identity", "user-agent": "amqp-server"},
            skip_auto_headers=("content-type",),
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(
        self, method: str, url: str, seconds_max: float, bytes_max: int, form: str | None = None
    ) -> Fetched:
        """Send a request and return the answer.

        Args:
            method: `GET` or `POST`.
            url: Address with its query, encoded.
            seconds_max: Time for all of it.
            bytes_max: Longest body; a longer one is an error.
            form: Encoded form to send; None: no body.

        Raises:
            FetchError: There is no answer, or one that is too long.
        """
        assert self._session is not None, "started before the first request"
        headers = {} if form is None else {"content-type": _FORM}
        octets = None if form is None else form.encode("ascii")
        try:
            return await self._fetch(method, url, seconds_max, bytes_max, octets, headers)
        except aiohttp.ServerDisconnectedError:
            # Servers close connections that were idle: once more, on another one.
            try:
                return await self._fetch(method, url, seconds_max, bytes_max, octets, headers)
            except _ERRORS as error:
                raise _failure(error) from error
        except _ERRORS as error:
            raise _failure(error) from error

    async def _fetch(
        self,
        method: str,
        url: str,
        seconds_max: float,
        bytes_max: int,
        octets: bytes | None,
        headers: Mapping[str, str],
    ) -> Fetched:
        assert self._session is not None
        async with self._session.request(
            method,
            URL(url, encoded=True),
            data=octets,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=seconds_max),
        ) as response:
            body = bytearray()
            while octets_read := await response.content.read(bytes_max + 1 - len(body)):
                body += octets_read
                if len(body) > bytes_max:
                    raise FetchError(f"the answer has more than {bytes_max} bytes")
            return Fetched(response.status, bytes(body))


_ERRORS: Final = (aiohttp.ClientError, TimeoutError, OSError, ValueError)


def _failure(error: Exception) -> FetchError:
    """Return the error without what may have a password: the address, and what was answered."""
    match error:
        case TimeoutError():
            return FetchError("no answer in time")
        case aiohttp.ClientResponseError():
            return FetchError("the answer is no HTTP")
        case aiohttp.InvalidURL():
            return FetchError("the address is not valid")
    return FetchError(str(error) or type(error).__name__)
