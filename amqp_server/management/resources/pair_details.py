"""What an object did with each other one, in RabbitMQ's shapes: `incoming`, `deliveries` and so on.

Shapes of `rabbit_mgmt_db` 3.10, where they are called detailed statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.management.http.ranges import CHANNEL_STATS, QUEUE_STATS

if TYPE_CHECKING:
    from amqp_server.management.mirror import Mirror
    from amqp_server.management.mirror.pairs import Key, PairRates

_PUBLISHES = tuple(
    name
    for name in CHANNEL_STATS
    if name in {"publish", "confirm", "return_unroutable", "drop_unroutable"}
)
_DELIVERIES = tuple(name for name in QUEUE_STATS if not name.startswith("publish"))
_STATS = {"publishes": _PUBLISHES, "deliveries": _DELIVERIES, "incoming": ("publish",)}


def pair_details(mirror: Mirror, node: str, kind: str, end: str, key: Key) -> list[dict[str, Any]]:
    """Return what one object did with each other one of a kind.

    Args:
        mirror: The broker's objects.
        node: Name of the node.
        kind: Kind of the pairs: `publishes`, `deliveries` or `incoming`.
        end: What the object is: `channel`, `exchange` or `queue`.
        key: Its key.
    """
    found: list[dict[str, Any]] = []
    for other, counted in mirror.pairs[kind].of(end, key):
        details = _stats(counted, _STATS[kind])
        if isinstance(other, str):
            channel = mirror.channels.get(other)
            if channel is None:
                # It has just closed.
                continue
            fields = channel.fields
            peer = fields["connection_details"]
            found.append(
                {
                    "stats": details,
                    "channel_details": {
                        "name": other,
                        "number": fields["number"],
                        "connection_name": peer["name"],
                        "peer_host": peer["peer_host"],
                        "peer_port": peer["peer_port"],
                        "user": fields.get("user", ""),
                        "node": node,
                    },
                }
            )
        else:
            vhost, name = other
            what = "queue" if kind == "deliveries" or end == "exchange" else "exchange"
            found.append({"stats": details, what: {"name": name, "vhost": vhost}})
    return found


def _stats(counted: PairRates, names: tuple[str, ...]) -> dict[str, Any]:
    stats: dict[str, Any] = {}
    for name in names:
        stats[name] = counted.stats.get(name, 0)
        stats[f"{name}_details"] = {"rate": counted.rates.get(name, 0.0)}
    return stats
