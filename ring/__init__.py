"""A bounded, preallocated buffer between the stages of a queue: the disruptor ring.

It knows nothing of AMQP, files or asyncio. A slot holds one `bytes` object.
"""

from __future__ import annotations

from ring.errors import RingError, SequenceNotHeldError
from ring.page_pool import PAGE_SLOTS, PagePool
from ring.ring import Ring

__all__ = ["PAGE_SLOTS", "PagePool", "Ring", "RingError", "SequenceNotHeldError"]
