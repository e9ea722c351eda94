"""A back end that asks an HTTP server, with the requests of RabbitMQ's plugin.

Source: rabbitmq_auth_backend_http: paths, fields of the forms, and their order.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from amqp_server.access.backends.backend import Identity, Refusal
from amqp_server.access.backends.fetching import Fetcher
from amqp_server.access.backends.http_answer import BYTES_MAX, BadAnswerError, read_answer

if TYPE_CHECKING:
    from amqp_server.access.backends.http_answer import HttpAnswer
    from amqp_server.base.config import ServerConfig

logger = logging.getLogger("amqp_server.access.backends.http_backend")

_REASON_CHARACTERS_MAX: Final = 200


class HttpBackend:
    """Asks an HTTP server; see `Backend`.

    Args:
        config: Settings: method, addresses, time limit.

    Raises:
        OSError: The file of authorities cannot be used.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._is_post = config.auth_http_method == "post"
        self._user_path = config.auth_http_user_path
        self._vhost_path = config.auth_http_vhost_path
        self._resource_path = config.auth_http_resource_path
        self._topic_path = config.auth_http_topic_path
        self._seconds_max = config.auth_timeout_seconds
        self._fetcher = Fetcher(config.auth_http_ca)

    async def start(self) -> None:
        """Begin; the event loop runs."""
        await self._fetcher.start()

    async def close(self) -> None:
        """Close all connections."""
        await self._fetcher.close()

    async def authenticate(
        self,
        user: str,
        password: str | None,
        peer: str,
    ) -> Identity | Refusal:
        """Ask `user_path`; without a password if the client has a certificate."""
        fields = {"username": user}
        if password is not None:
            fields["password"] = password
        answer = await self._ask(self._user_path, fields)
        if answer.allows:
            return Identity(user, answer.words)
        if answer.reason:
            shown = answer.reason[:_REASON_CHARACTERS_MAX]
            if password:
                shown = shown.replace(password, "***")
            return Refusal(f"denied by the HTTP server: {shown!r}")
        return Refusal("denied by the HTTP server")

    async def may_open_vhost(self, identity: Identity, vhost: str, peer: str) -> bool:
        """Ask `vhost_path`."""
        fields = {"username": identity.name, "vhost": vhost, "ip": peer}
        return await self._allows(self._vhost_path, identity, fields)

    async def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, right: str
    ) -> bool:
        """Ask `resource_path`."""
        fields = {
            "username": identity.name,
            "vhost": vhost,
            "resource": kind,
            "name": name,
            "permission": right,
        }
        return await self._allows(self._resource_path, identity, fields)

    async def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, right: str
    ) -> bool:
        """Ask `topic_path`."""
        fields = {
            "username": identity.name,
            "vhost": vhost,
            "resource": "topic",
            "name": exchange,
            "permission": right,
        }
        return await self._allows(self._topic_path, identity, fields, {"routing_key": routing_key})

    async def _allows(
        self,
        path: str,
        identity: Identity,
        fields: dict[str, str],
        context: dict[str, str] | None = None,
    ) -> bool:
        form = {**fields, "tags": " ".join(identity.tags), **(context or {})}
        answer = await self._ask(path, form)
        if answer.words:
            raise BadAnswerError("words behind allow are for users only")
        if answer.reason:
            logger.info(
                "denied by the HTTP server asked=%r reason=%r",
                " ".join(fields.values())[:_REASON_CHARACTERS_MAX],
                answer.reason[:_REASON_CHARACTERS_MAX],
            )
        return answer.allows

    async def _ask(self, path: str, fields: dict[str, str]) -> HttpAnswer:
        form = urlencode(fields)
        if self._is_post:
            fetched = await self._fetcher.fetch("POST", path, self._seconds_max, BYTES_MAX, form)
        else:
            joint = "&" if "?" in path else "?"
            url = f"{path}{joint}{form}"
            fetched = await self._fetcher.fetch("GET", url, self._seconds_max, BYTES_MAX)
        is_shown = path != self._user_path
        return read_answer(fetched.status, fetched.octets, is_shown=is_shown)
