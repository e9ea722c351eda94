"""Where the process of the shovels connects to its own broker: a listener for it alone.

It listens on the loopback interface while that process runs, and accepts one password: a secret
that the process was told through its standard input, another one at each start. Whoever has it acts
with all rights in the virtual host that it opens, as the user `none`, who need not exist. No other
listener knows that secret or such a user. Who may set a shovel that works so is decided when its
parameter is set.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqp_server.access.grants import Grants
from amqp_server.access.permissions import FULL
from amqp_server.handshakes import Handshakes
from amqp_server.protocol.errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.client_connection import ClientConnection
    from amqp_server.protocol.connection_machine import Authenticator
    from amqp_server.server_context import ServerContext

logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
_SECRET_BYTES: Final = 32


class ShovelDoor:
    """The listener for the process of the shovels.

    Args:
        context: What connections of the server use.
        make_connection: Makes the connection of a client.
    """

    def __init__(
        self,
        context: ServerContext,
        make_connection: Callable[[ServerContext], ClientConnection],
    ) -> None:
        self._secret = ""
        self._context = replace(
            context,
            access=_AllRights(),
            handshakes=_SecretHandshakes(context, lambda: self._secret),
        )
        self._make_connection = make_connection
        self._listener: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; does nothing if it does.

        Raises:
            OSError: The system refuses.
        """
        if self._listener is None:
            self._listener = await asyncio.get_running_loop().create_server(
                lambda: self._make_connection(self._context), HOST, 0
            )

    @property
    def port(self) -> int:
        """TCP port on which it listens."""
        assert self._listener is not None, "the door is open"
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    def new_secret(self) -> str:
        """Return the password that is accepted from now on, instead of the one before."""
        self._secret = secrets.token_hex(_SECRET_BYTES)
        return self._secret

    def close(self) -> None:
        """Accept nothing more; connections that are open stay."""
        self._secret = ""
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class _AllRights:
    """Rules by which everybody may do everything."""

    generation = 0

    def grants(self, user: str, vhost: str) -> Grants:
        return Grants(user, vhost, FULL, {}, may_impersonate=True)


class _SecretHandshakes(Handshakes):
    def __init__(self, context: ServerContext, secret: Callable[[], str]) -> None:
        super().__init__(context.config, context.handshakes.authentication)
        self._secret = secret

    def authenticator(self, peer: str) -> Authenticator:
        return _SecretAuthenticator(peer, self)

    def is_secret(self, password: bytes) -> bool:
        secret = self._secret()
        return bool(secret) and hmac.compare_digest(password, secret.encode())


class _SecretAuthenticator:
    """Lets in who knows the secret.

    Attributes:
        refusal: Why it has refused the last login.
    """

    def __init__(self, peer: str, handshakes: _SecretHandshakes) -> None:
        self.refusal = ""
        self._peer = peer
        self._handshakes = handshakes

    def login(self, user: str, password: bytes) -> bool:
        if self._handshakes.is_secret(password):
            return True
        self.refusal = "not the process of the shovels"
        logger.warning("login at the door for shovels refused user=%r peer=%s", user, self._peer)
        return False

    def login_by_certificate(self, user: str) -> bool:
        return False

    def check_vhost(self, user: str, name: str) -> None:
        rules = self._handshakes.authentication
        if name not in rules.vhosts:
            raise NotAllowed(f"vhost {name} not found")
        rules.limits.check_connection(user, name)

    def secret_renewed(self, user: str, reason: str) -> None:
        """Ignore that: the secret is another one at each start."""
