"""Safe behaviour of a queue while it is not known which policy applies to it.

One damaged document of a policy is enough: without it the policy of the next lower priority would
count, which may drop messages or delete queues. So no policy of the virtual host counts, and what a
policy might have kept is kept: the queue neither drops, expires, refuses nor dead-letters anything
because of policies. Its own arguments still hold, except where a policy counts before them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from amqp_server.base.config import Durability
from amqp_server.broker.policies.applied_arguments import applied_arguments
from amqp_server.broker.queue_settings import QueueType, queue_settings
from amqp_server.broker.storing.storage_settings import DURABILITY, RETENTION_ARGUMENTS
from appendlog import RetentionPolicy
from appendlog.reclaim.stream_retention import StreamBounds

if TYPE_CHECKING:
    from amqp_server.broker.policies.effective_policy import EffectivePolicy
    from amqp_server.broker.queue_settings import QueueSettings
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.storing.storage_settings import StorageSettings
    from amqp_server.protocol.tables import Table

UNKNOWN_MAX: Final = 20
"""Damaged documents that a log line or a check of health names."""
_KEEP_ALL: Final = RetentionPolicy(segments_min=1 << 62)
"""Retention that removes nothing."""


@dataclass(frozen=True, slots=True)
class UnknownPolicy:
    """The document of a policy that cannot be read, is not valid or is missing.

    Attributes:
        path: Its path below the data directory.
        reason: What is wrong with it.
        pattern: What its pattern reads like; empty if it cannot be read. It may be what changed.
    """

    path: str
    reason: str
    pattern: str = ""

    def consequence(self, vhost: str) -> str:
        """Return the reason together with what it means for the virtual host."""
        reads = f" (its pattern reads {self.pattern!r})" if self.pattern else ""
        return (
            f"{self.reason}; it could concern every queue and exchange of vhost {vhost!r}{reads}: "
            "no policy applies there, and messages that a policy might keep are kept, until it is "
            "set again, cleared or accepted as lost"
        )


def settings_with_policy(
    arguments: Table, kind: QueueType, policy: EffectivePolicy
) -> QueueSettings:
    """Return the settings that a queue's checked arguments and its policy give together."""
    settings = queue_settings(applied_arguments(arguments, kind, policy.definition))
    if not policy.is_unknown or kind is QueueType.STREAM:
        return settings
    return replace(
        settings,
        awaits_dead_letter_rule=settings.dead_letter_exchange is None,
        # Without the argument it is the default, which a policy might raise.
        delivery_limit=settings.delivery_limit if "x-delivery-limit" in arguments else None,
    )


def storage_with_policy(
    storage: QueueStorage, arguments: Table, kind: QueueType, policy: EffectivePolicy
) -> StorageSettings:
    """Return how a queue is kept on the disk, by its checked arguments and its policy."""
    settings = storage.settings(applied_arguments(arguments, kind, policy.definition))
    if not policy.is_unknown:
        return settings
    return replace(
        settings,
        durability=settings.durability if DURABILITY in arguments else Durability.FSYNC,
        retention=(
            settings.retention
            if kind is QueueType.STREAM or not RETENTION_ARGUMENTS.isdisjoint(arguments)
            else _KEEP_ALL
        ),
        # Of a stream, policies count before arguments.
        stream=StreamBounds(),
    )
