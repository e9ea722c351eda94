"""Asks the broker about logins, so that those whose check takes long keep no others waiting.

A check takes long when the password has a slow hash, or when another back end has to be asked,
which may not answer at all. Such checks have connections to the broker and a waiting list of their
own. A login that was accepted before is asked about on other connections, on which every answer
comes at once.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from random import uniform
from typing import TYPE_CHECKING, Any, Final

from amqp_server.base.socket_names import address_key
from amqp_server.base.waiting_list import CrowdedError, WaitingList
from amqp_server.management.broker_client import BrokerClient
from amqp_server.management.http.answers import ApiError

if TYPE_CHECKING:
    from pathlib import Path

PLACES: Final = 6
"""Checks that may take long at the same time: each has a connection to the broker."""
PLACES_PER_ADDRESS: Final = 3
"""Of these, those for clients of one address: one whose checks hang leaves places to others."""
QUICK_CONNECTIONS: Final = 2
"""Connections to the broker for logins that were accepted before."""
ACCEPTED_MAX: Final = 4096
"""Accepted logins that are remembered; above that, the one used longest ago is forgotten."""
REFUSED_SECONDS: Final = (1.0, 3.0)
"""Least and most seconds until a client is told that too many logins wait: whoever tries again at
once costs little then, and not all of them come back in the same moment."""
_RETRY: Final = {"retry-after": "1"}


class LoginChecks:
    """Checks logins with the broker. One event loop owns it.

    Args:
        storage_path: Data directory of the broker.
    """

    def __init__(self, storage_path: Path) -> None:
        self._quick = BrokerClient(storage_path, QUICK_CONNECTIONS)
        self._slow = BrokerClient(storage_path, PLACES)
        self._waiting_list = WaitingList(PLACES, PLACES_PER_ADDRESS)
        # Whether the login is still right is for the broker to say.
        self._accepted: dict[bytes, None] = {}

    async def check(
        self, digest: bytes, name: str, password: str, peer_host: str
    ) -> dict[str, Any]:
        """Return who logs in, as the command `logins.check` does.

        Args:
            digest: Stands for name and password.
            name: Name of the user; empty for a token.
            password: Password or token.
            peer_host: Address of the client.

        Raises:
            ApiError: 429 or 503: too many logins wait, of this address or of all.
            BrokerRefused: The login is refused.
            BrokerAway: The broker does not answer.
        """
        arguments = {"user": name, "password": password, "peer_host": peer_host}
        was_accepted = digest in self._accepted
        self._accepted.pop(digest, None)
        found: dict[str, Any] | None = None
        if was_accepted:
            found = await self._quick.call("logins.known", arguments)
        if found is None:
            found = await self._check_in_turn(arguments, peer_host)
        self._remember(digest)
        return found

    async def close(self) -> None:
        """Close all connections that have no request under way."""
        await self._quick.close()
        await self._slow.close()

    async def _check_in_turn(self, arguments: dict[str, str], peer_host: str) -> dict[str, Any]:
        try:
            async with self._waiting_list.place(address_key(peer_host)):
                found: dict[str, Any] = await self._slow.call("logins.check", arguments)
                return found
        except CrowdedError as error:
            await asyncio.sleep(uniform(*REFUSED_SECONDS))  # noqa: S311 - no secret
            status, whose = HTTPStatus.SERVICE_UNAVAILABLE, "all clients"
            if error.is_of_address:
                status, whose = HTTPStatus.TOO_MANY_REQUESTS, f"the address '{peer_host}'"
            reason = f"Too many logins of {whose} wait for their check: try again later"
            raise ApiError(status, "too_many_logins", reason, _RETRY) from None

    def _remember(self, digest: bytes) -> None:
        self._accepted.pop(digest, None)
        if len(self._accepted) >= ACCEPTED_MAX:
            del self._accepted[next(iter(self._accepted))]
        self._accepted[digest] = None
