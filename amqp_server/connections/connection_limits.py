"""Limits of virtual hosts and users on connections and channels, with counts that are kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from amqp_server.broker.vhost_limits import NO_LIMIT, is_reached
from amqp_server.protocol.errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.access.user import User
    from amqp_server.broker.counters.broker_counters import Churn
    from amqp_server.broker.virtual_host import VirtualHost


class ConnectionLimits:
    """Counts connections and channels, and refuses one too many. The event loop owns it.

    A limit that is lowered closes nothing.

    Args:
        vhosts: The virtual hosts by name; the broker changes it.
        users: The users by name; the access control changes it.
        churn: Counts what comes and goes.
    """

    def __init__(
        self, vhosts: Mapping[str, VirtualHost], users: Mapping[str, User], churn: Churn
    ) -> None:
        self._churn = churn
        self._vhosts = vhosts
        self._users = users
        self._connections: Counter[str] = Counter()
        self._channels: Counter[str] = Counter()

    def connections_of_user(self, user: str) -> int:
        """Return the number of open connections of a user."""
        return self._connections.get(user, 0)

    def channels_of_user(self, user: str) -> int:
        """Return the number of open channels of a user, on all of its connections."""
        return self._channels.get(user, 0)

    def check_connection(self, user: str, vhost: str) -> None:
        """Check that a user may open one more connection to a virtual host that exists.

        Raises:
            NotAllowed: A limit is reached; the texts are RabbitMQ's.
        """
        host = self._vhosts[vhost]
        limit = host.limits.max_connections
        if is_reached(limit, host.connection_count):
            raise NotAllowed(
                f"access to vhost '{vhost}' refused for user '{user}': "
                f"connection limit ({limit}) is reached"
            )
        limit = self._limit(user, "max-connections")
        if is_reached(limit, self._connections[user]):
            raise NotAllowed(
                f"connection refused for user '{user}': user connection limit ({limit}) is reached"
            )

    def check_channel(self, user: str) -> None:
        """Check that a user may open one more channel.

        Raises:
            NotAllowed: The limit is reached; the text is RabbitMQ's.
        """
        limit = self._limit(user, "max-channels")
        if is_reached(limit, self._channels[user]):
            raise NotAllowed(
                f"number of channels opened for user '{user}' has reached the maximum allowed "
                f"user limit of ({limit})"
            )

    def note_opened(self, user: str, vhost: VirtualHost | None) -> None:
        """Count a connection; the caller counts it out with `note_closed`."""
        self._churn.connection_created += 1
        self._connections[user] += 1
        if vhost is not None:
            vhost.connection_count += 1

    def note_closed(self, user: str, vhost: VirtualHost | None) -> None:
        """Count out a connection."""
        self._churn.connection_closed += 1
        _subtract(self._connections, user, 1)
        if vhost is not None:
            vhost.connection_count -= 1

    def note_channel_opened(self, user: str) -> None:
        """Count a channel; the caller counts it out with `note_channels_closed`."""
        self._churn.channel_created += 1
        self._channels[user] += 1

    def note_channels_closed(self, user: str, count: int) -> None:
        """Count out some channels."""
        self._churn.channel_closed += count
        if count:
            _subtract(self._channels, user, count)

    def _limit(self, user: str, name: str) -> int:
        found = self._users.get(user)
        return NO_LIMIT if found is None else found.limits.get(name, NO_LIMIT)


def _subtract(counts: Counter[str], user: str, count: int) -> None:
    """Subtract, and forget users who have none: there may have been a hundred thousand."""
    counts[user] -= count
    if not counts[user]:
        del counts[user]
