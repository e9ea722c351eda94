"""What a handler is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amqp_server.protocol.methods import Method

Handler = Callable[[Any, Any], Awaitable[Method | None] | None]
"""Takes the channel and a method of the class it is registered for.

Returns what has to be waited for before the method is done, with the reply that is due then.
"""

Handlers = dict[type[Method], Handler]
"""Handler by method."""
