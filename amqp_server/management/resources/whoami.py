"""Who asks: `/api/whoami`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.management.http.answers import AnyAnswer, ok
from amqp_server.management.http.routes import Route

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts


async def show(call: Call) -> AnyAnswer:
    """Return the name and the tags of the user who asks."""
    return ok({"name": call.user.name, "tags": list(call.user.tags)})


def routes(parts: Parts) -> list[Route]:
    """Return the route."""
    del parts
    return [Route("GET", "/api/whoami", show)]
