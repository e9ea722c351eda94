"""Who the broker is, for the labels by which dashboards find it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Names of the broker.

    Attributes:
        node: Name of the node, such as `rabbit@host`.
        version: RabbitMQ's version, as the HTTP API shows it.
    """

    node: str = "rabbit@localhost"
    version: str = ""
