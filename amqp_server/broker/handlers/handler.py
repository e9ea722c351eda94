"""What a handler is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amqp_server.protocol.methods import Method

Handler = Callable[[Any, Any], Awaitable[None] | None]
"""Takes the channel and a method of the class it is registered for."""

Handlers = dict[type[Method], Handler]
"""Handler by method."""
