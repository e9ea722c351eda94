"""The name of the cluster, a global parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqp_server.management.http.parts import Parts

PARAMETER: Final = "cluster_name"


async def cluster_name(parts: Parts) -> str:
    """Return the name of the cluster: the one that was set, or that of the node."""
    rows = await parts.broker.call("global_parameters.list")
    found = [row["value"] for row in rows if row["name"] == PARAMETER]
    return found[0] if found and isinstance(found[0], str) else parts.settings.node_name
