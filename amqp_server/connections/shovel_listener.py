"""Where the process of the shovels connects to its own broker: a listener for it alone.

It listens on the loopback interface while that process runs, and accepts one password: a secret
that the process was told through its standard input, another one at each start. No other listener
accepts it. The process logs in as the user `none`, who need not exist and has all rights, for
shovels that administrators have set; for shovels of other users it names the user, who has the
rights that the user has everywhere.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqp_server.access.backends.login import INTERNAL, Login
from amqp_server.access.grants import Grants
from amqp_server.access.permissions import FULL
from amqp_server.connections.authentication import PeerAuthenticator
from amqp_server.connections.handshake_factory import HandshakeFactory
from amqp_server.shovel.owner import owner_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.access.access_control import AccessControl
    from amqp_server.connections.client_connection import ClientConnection
    from amqp_server.connections.server_context import ServerContext

logger = logging.getLogger("amqp_server.shovel_door")

HOST: Final = "127.0.0.1"
_SECRET_BYTES: Final = 32


class ShovelListener:
    """The listener for the process of the shovels.

    Args:
        context: Parts that the server's connections share.
        access: Users and permissions.
        make_connection: Makes the connection of a client.
    """

    def __init__(
        self,
        context: ServerContext,
        access: AccessControl,
        make_connection: Callable[[ServerContext], ClientConnection],
    ) -> None:
        self._secret = ""
        self._context = replace(
            context,
            handshake_factory=_SecretHandshakeFactory(context, access, lambda: self._secret),
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
        assert self._listener is not None, "it listens"
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
    """Rules by which every client may do everything."""

    generation = 0

    def grants(self, user: str, vhost: str) -> Grants:
        return Grants(user, vhost, FULL, {}, may_impersonate=True)

    def may_access(self, user: str, vhost: str) -> bool:
        return True


class _SecretHandshakeFactory(HandshakeFactory):
    def __init__(
        self, context: ServerContext, access: AccessControl, secret: Callable[[], str]
    ) -> None:
        super().__init__(context.config, context.handshake_factory.authentication)
        self.access = access
        self._secret = secret

    def authenticator(self, peer: str) -> PeerAuthenticator:
        return _SecretAuthenticator(peer, self)

    def is_secret(self, password: bytes) -> bool:
        secret = self._secret()
        return bool(secret) and hmac.compare_digest(password, secret.encode())


class _SecretAuthenticator(PeerAuthenticator):
    """Accepts only clients that know the secret."""

    def __init__(self, peer: str, factory: _SecretHandshakeFactory) -> None:
        super().__init__(peer, factory.authentication)
        self._factory = factory

    def login(self, user: str, password: bytes) -> bool:
        if not self._factory.is_secret(password):
            return self._refuse_login(user, "not the process of the shovels")
        owner = owner_in(user)
        if owner is None:
            self._accept(Login(user, (), INTERNAL, _AllRights()))
            return True
        access = self._factory.access
        known = access.users.get(owner)
        if known is None:
            return self._refuse_login(owner, "the user who has set the shovel does not exist")
        self._accept(Login(owner, known.tags, INTERNAL, access))
        return True

    def _refuse_login(self, user: str, reason: str) -> bool:
        self.refusal = reason
        logger.warning(
            "login at the door for shovels refused user=%r peer=%s reason=%s",
            user,
            self._peer,
            reason,
        )
        return False

    def login_by_certificate(self, user: str) -> bool:
        return False
