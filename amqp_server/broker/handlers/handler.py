"""The type of a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from amqp_server.protocol.methods import Method

Handler = Callable[[Any, Any], Awaitable[Method | None] | Iterator[None] | None]
"""Takes the channel, and a method of the class that it is registered for.

Returns an awaitable if the method waits for something; its result is the reply, or None. Returns an
iterator if there is more to do than others should wait for: each step does a part, and the last one
sends the reply.
"""

Handlers = dict[type[Method], Handler]
"""Handlers by method."""
