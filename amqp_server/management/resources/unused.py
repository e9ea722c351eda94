"""What RabbitMQ has and this server does not need: empty lists, and changes that do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.base.compatible_version import compatible_version
from amqp_server.management.http.answers import NO_CONTENT, AnyAnswer, ok
from amqp_server.management.http.call import Tag
from amqp_server.management.http.routes import Route

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_LISTS: Final[tuple[tuple[str, Tag], ...]] = (
    ("/api/extensions", Tag.MANAGEMENT),
    ("/api/feature-flags", Tag.ADMINISTRATOR),
    ("/api/deprecated-features", Tag.ADMINISTRATOR),
    ("/api/deprecated-features/used", Tag.ADMINISTRATOR),
    ("/api/federation-links", Tag.MONITORING),
    ("/api/federation-links/{vhost}", Tag.MONITORING),
    ("/api/stream/connections", Tag.MANAGEMENT),
    ("/api/stream/connections/{vhost}", Tag.MANAGEMENT),
    ("/api/stream/publishers", Tag.MANAGEMENT),
    ("/api/stream/publishers/{vhost}", Tag.MANAGEMENT),
    ("/api/stream/publishers/{vhost}/{name}", Tag.MANAGEMENT),
    ("/api/stream/consumers", Tag.MANAGEMENT),
    ("/api/stream/consumers/{vhost}", Tag.MANAGEMENT),
)


async def _nothing(_call: Call) -> AnyAnswer:
    return ok([])


async def _done(_call: Call) -> AnyAnswer:
    return NO_CONTENT


def routes(parts: Parts) -> list[Route]:
    """Return the routes that have nothing to show or to do."""

    async def version(_call: Call) -> AnyAnswer:
        return ok(compatible_version(parts.settings.presented_version))

    return [
        *(
            Route("GET", path, _nothing, tag, checks_vhost="{vhost}" in path)
            for path, tag in _LISTS
        ),
        Route("GET", "/api/version", version, requires=None),
        Route("POST", "/api/rebalance/queues", _done, Tag.ADMINISTRATOR),
        Route("DELETE", "/api/reset", _done, Tag.ADMINISTRATOR),
        Route("DELETE", "/api/reset/{node}", _done, Tag.ADMINISTRATOR),
        Route("PUT", "/api/feature-flags/{name}/enable", _done, Tag.ADMINISTRATOR),
        Route(
            "POST",
            "/api/vhosts/{vhost}/start/{node}",
            _done,
            Tag.ADMINISTRATOR,
            checks_vhost=True,
        ),
    ]
