"""The name of the cluster, a global parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from amqp_server.management.http.parts import Parts

PARAMETER: Final = "cluster_name"


async def cluster_name(parts: Parts) -> str:
    """Return the name of the cluster: the one that was set, or that of the node."""
    found: list[str] = []

    def take(report: dict[str, Any]) -> None:
        found.extend(
            row["value"]
            for row in report["parameters"]
            if row["name"] == PARAMETER and isinstance(row["value"], str)
        )

    await parts.broker.call("global_parameters.list", on_progress=take)
    return found[0] if found else parts.settings.node_name
