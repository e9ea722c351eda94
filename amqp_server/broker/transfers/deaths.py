"""Reasons for which a message leaves its queue without an acknowledgement."""

from typing import Final

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"

X_DEATH: Final = "x-death"
"""Header of a dead letter: one table for each queue and reason that it has left."""
