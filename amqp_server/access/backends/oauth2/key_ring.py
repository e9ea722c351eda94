"""The keys that sign tokens: those of files, and those that a key server publishes.

The key server is asked in the background: at the start, now and then, and once when a token names a
key that is not known. While it is away, the keys that it had stay.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import orjson

from amqp_server.access.backends.fetching import FetchError
from amqp_server.access.backends.oauth2.keys import BadKeyError, SigningKey, keys_from_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amqp_server.access.backends.fetching import Fetcher

logger = logging.getLogger("amqp_server.access.backends.oauth2.key_ring")

REFRESH_SECONDS: Final = 300.0
"""Time between two looks at the keys: one that was withdrawn counts no longer than that."""
UNKNOWN_SECONDS: Final = 10.0
"""Least time between two looks because of unknown keys: any client can make up names of keys."""
RETRY_SECONDS: Final = 10.0
"""Time until the next look after one that failed."""
BYTES_MAX: Final = 512 * 1024
"""Longest answer of a key server."""
DISCOVERY_BYTES_MAX: Final = 64 * 1024
"""Longest answer of an issuer: it is read on the event loop, which takes a millisecond."""
_DISCOVERY: Final = "/.well-known/openid-configuration"


class KeyRing:
    """Finds the key that a token names. The event loop owns it.

    Args:
        files: Keys of files by name; they never change.
        fetcher: Asks the key server; None if there is none.
        jwks_uri: Address of its key set; empty: `issuer` tells it.
        issuer: Issuer of the tokens, who publishes the address (OpenID Connect Discovery).
        seconds_max: Time that one request may take.
        now: Returns seconds that never decrease.
    """

    def __init__(
        self,
        files: Mapping[str, SigningKey],
        fetcher: Fetcher | None = None,
        jwks_uri: str = "",
        issuer: str = "",
        seconds_max: float = 5.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = dict(files)
        self._fetcher = fetcher
        self._jwks_uri = jwks_uri
        self._issuer = issuer
        self._seconds_max = seconds_max
        self._now = now
        self._fetched: dict[str, SigningKey] = {}
        self._next_unknown = 0.0
        self._look: asyncio.Task[bool] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look for keys in the background; the event loop runs."""
        if self._fetcher is not None:
            await self._fetcher.start()
            self._looking = asyncio.create_task(self._look_now_and_then(), name="signing keys")

    async def close(self) -> None:
        """End what is under way."""
        for task in (self._looking, self._look):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self._fetcher is not None:
            await self._fetcher.close()

    async def find(self, name: str | None, default: str) -> SigningKey | None:
        """Return the key that a token names; the key server is asked for one that is not known.

        Args:
            name: Name of the key in the token; None if it has none.
            default: Name of the key for such tokens; empty: the only key that there is.
        """
        found = self._known(name, default)
        if found is None and await self._look_for_unknown():
            found = self._known(name, default)
        return found

    def _known(self, name: str | None, default: str) -> SigningKey | None:
        keys = {**self._fetched, **self._files}
        wanted = name or default
        if wanted:
            return keys.get(wanted)
        return next(iter(keys.values())) if len(keys) == 1 else None

    # The key server

    async def _look_for_unknown(self) -> bool:
        """Look once for a key that is not known; return False if that is not due."""
        if self._fetcher is None:
            return False
        if self._look is None or self._look.done():
            if self._now() < self._next_unknown:
                return False
            self._next_unknown = self._now() + UNKNOWN_SECONDS
        return await self._look_once()

    async def _look_now_and_then(self) -> None:
        while True:
            has_looked = await self._look_once()
            await asyncio.sleep(REFRESH_SECONDS if has_looked else RETRY_SECONDS)

    async def _look_once(self) -> bool:
        """Take over the keys of the key server; all who wait share one look."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._take_over(), name="look for signing keys")
        return await asyncio.shield(self._look)

    async def _take_over(self) -> bool:
        try:
            uri = self._jwks_uri or await self._discover()
            octets = await self._fetch(uri, BYTES_MAX)
            keys = await asyncio.to_thread(keys_from_set, octets)
        except (FetchError, BadKeyError) as error:
            logger.warning(
                "signing keys not fetched from=%s reason=%s kept=%d",
                self._jwks_uri or self._issuer,
                error,
                len(self._fetched),
            )
            return False
        if keys.keys() != self._fetched.keys():
            logger.info("signing keys fetched from=%s names=%s", uri, sorted(keys))
        self._fetched = keys
        return True

    async def _discover(self) -> str:
        """Return the address of the key set that the issuer publishes."""
        address = self._issuer.rstrip("/") + _DISCOVERY
        try:
            found = orjson.loads(await self._fetch(address, DISCOVERY_BYTES_MAX))
        except orjson.JSONDecodeError:
            raise BadKeyError("what the issuer publishes is not JSON") from None
        uri = found.get("jwks_uri") if isinstance(found, dict) else None
        if not isinstance(uri, str) or not uri.startswith(("https://", "http://")):
            raise BadKeyError("the issuer publishes no jwks_uri")
        if self._issuer.startswith("https://") and not uri.startswith("https://"):
            raise BadKeyError("the issuer publishes a jwks_uri without TLS")
        return uri

    async def _fetch(self, url: str, bytes_max: int) -> bytes:
        assert self._fetcher is not None, "looked for only where there is a key server"
        fetched = await self._fetcher.fetch("GET", url, self._seconds_max, bytes_max)
        if fetched.status != 200:
            raise FetchError(f"the server answered with status {fetched.status}")
        return fetched.octets
