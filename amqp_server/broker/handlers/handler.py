"""The type of a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amqp_server.protocol.methods import Method

Handler = Callable[[Any, Any], Awaitable[Method | None] | None]
"""Takes the channel, and a method of the class that it is registered for.

Returns an awaitable if the method is not done yet; its result is the reply, or None.
"""

Handlers = dict[type[Method], Handler]
"""Handlers by method."""
