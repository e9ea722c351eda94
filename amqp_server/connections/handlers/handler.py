"""The type of a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, TypeAlias

from amqp_server.protocol.methods import Method

Waiting: TypeAlias = Awaitable[Method | None] | None
"""What a method waits for; its result is the reply, or None. None: the reply was sent."""
MethodSteps: TypeAlias = Generator[None, None, Waiting]
"""The steps of a method that has more to do than others should wait for.

Each step does a part, and the client's next event is handled after the last one. The result is what
the method then waits for.
"""
Outcome: TypeAlias = Waiting | MethodSteps
"""What a handler returns that may do either."""

Handler = Callable[[Any, Any], Outcome | Iterator[None]]
"""Takes the channel, and a method of the class that it is registered for.

Returns an iterator that is no generator if the last step sends the reply.
"""

Handlers = dict[type[Method], Handler]
"""Handlers by method."""
