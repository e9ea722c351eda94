"""Why a message leaves its queue for good without having been acknowledged."""

from typing import Final

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
