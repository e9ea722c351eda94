"""A queue's arguments together with what its policies give: as if it had been declared so.

The settings of a queue are made from arguments (`queue_settings`, `storage_settings`). A policy
changes these arguments, so that no part of a queue has to know of policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.policies.effective_policy import choose
from amqp_server.broker.policies.keys import KEYS, Counts
from amqp_server.protocol.field_comparison import INTEGER_KINDS
from amqp_server.protocol.field_values import FieldValue

if TYPE_CHECKING:
    from amqp_server.broker.policies.policy import Definition
    from amqp_server.broker.queue_settings import QueueType
    from amqp_server.protocol.tables import Table


def applied_arguments(arguments: Table, kind: QueueType, definition: Definition) -> Table:
    """Return checked arguments of a queue with those of its policies.

    Args:
        arguments: Arguments that the queue was declared with; returned unchanged if no policy
            changes them.
        kind: Type of the queue.
        definition: `EffectivePolicy.definition`.
    """
    if not definition:
        return arguments
    applied = dict(arguments)
    for name, value in definition.items():
        key = KEYS[name]
        if not key.has_effect or kind not in key.types:
            continue
        argument = f"x-{name}"
        own = arguments.get(argument)
        if own is None or kind in key.policy_wins:
            applied[argument] = _field(value)
        elif key.counts is not Counts.FIRST and _is_integer(own):
            applied[argument] = _field(choose(key.counts, own.value, value))
    return applied


def _is_integer(value: FieldValue) -> bool:
    return value.kind in INTEGER_KINDS and isinstance(value.value, int)


def _field(value: object) -> FieldValue:
    """Return a JSON value of a policy as the argument that a client would send."""
    if isinstance(value, bool):
        return FieldValue(b"t", value)
    if isinstance(value, int):
        return FieldValue(b"l", value)
    return FieldValue(b"S", str(value).encode("utf-8", "surrogateescape"))
