"""Publish targets for a user who may not publish everywhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.access.grants import UnansweredError
from amqp_server.access.permissions import Right
from amqp_server.broker.rights import DEFAULT_EXCHANGE, when_answered
from amqp_server.protocol.errors import AccessRefused
from amqp_server.protocol.methods import BasicPublish, decode_method

if TYPE_CHECKING:
    from amqp_server.broker.publishing.publish_targets import PublishTarget, PublishTargets
    from amqp_server.broker.rights import AnswersClient, Rights
    from amqp_server.broker.routing.steps import Steps

FRAMES_MAX: Final = 4096
"""Publish frames that are remembered as allowed; when there are more, all are forgotten."""


class GuardedTargets:
    """The publish targets of a virtual host, each checked before it is handed out.

    It offers what a channel uses of `PublishTargets`, until the user's permissions change.

    Args:
        targets: Targets of the virtual host.
        rights: Rights of the connection.
        client: The connection, which waits while a permission is not known yet.
    """

    def __init__(self, targets: PublishTargets, rights: Rights, client: AnswersClient) -> None:
        self._targets = targets
        self._client = client
        self._rights = rights
        self._allowed: dict[bytes, PublishTarget] = {}
        self._forgotten_count = targets.forgotten_count

    def recent(self) -> dict[bytes, PublishTarget]:
        """Return targets that are allowed, by method payload; do not change or keep it."""
        if self._forgotten_count != self._targets.forgotten_count:
            # They may keep removed queues and exchanges in memory.
            self._forgotten_count = self._targets.forgotten_count
            self._allowed.clear()
        return self._allowed

    def find_known(self, method_payload: bytes) -> PublishTarget | None:
        """Return the target of a frame if it is known to be allowed."""
        target = self.recent().get(method_payload)
        if target is not None and target.routes_version == target.exchange.routes_version:
            return target
        target = self._targets.find_known(method_payload)
        if target is None or not self._allows(method_payload, target):
            return None
        if len(self._allowed) >= FRAMES_MAX:
            self._allowed.clear()
        self._allowed[method_payload] = target
        return target

    def check(self, method_payload: bytes) -> None:
        """Check a frame without finding its route.

        Raises:
            AccessRefused: The user may not publish there.
            AmqpError: As `PublishTargets.check`.
        """
        method = _decoded(method_payload)
        try:
            self._rights.require(Right.WRITE, "exchange", method.exchange)
            exchange = self._targets.checked_exchange(method_payload)
            self._rights.require_topic(Right.WRITE, exchange, method.routing_key)
        except AccessRefused as error:
            raise error.with_method(*BasicPublish.ids) from None

    def find_in_steps(
        self, method_payload: bytes, visits_max: int | None = None
    ) -> Steps[PublishTarget]:
        """Return the steps that find the target of a frame; see `PublishTargets`.

        Raises:
            AccessRefused: The user may not publish there.
            AmqpError: As `PublishTargets.find_in_steps`.
        """
        yield from when_answered(self._client, partial(self.check, method_payload))
        return (yield from self._targets.find_in_steps(method_payload, visits_max))

    def _allows(self, method_payload: bytes, target: PublishTarget) -> bool:
        method = _decoded(method_payload)
        name = method.exchange or DEFAULT_EXCHANGE
        try:
            return self._rights.grants.allows(
                Right.WRITE, "exchange", name
            ) and self._rights.allows_topic(Right.WRITE, target.exchange, method.routing_key)
        except UnansweredError:
            return False


def _decoded(method_payload: bytes) -> BasicPublish:
    method = decode_method(method_payload)
    assert isinstance(method, BasicPublish), "a run must carry basic.publish"
    return method
