"""The form of an exported file: that of RabbitMQ 4, or one that RabbitMQ 3.10 reads as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server import __version__
from amqp_server.access.passwords import SCRYPT, SHA256
from amqp_server.definitions_file.file_content import CLUSTER_SECTIONS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RABBIT_VERSION: Final = "4.1.0"
"""Version of RabbitMQ whose form the file has."""
CLUSTER_NAME: Final = "cluster_name"
"""Global parameter with the name of the cluster."""
_NAMELESS: Final = "amqp-server"


def head_of_file(vhost: str | None = None, cluster_name: object = _NAMELESS) -> dict[str, Any]:
    """Return what a definitions file says of itself, before its sections.

    Args:
        vhost: Virtual host that is exported; None: all.
        cluster_name: Name of the cluster.
    """
    top: dict[str, Any] = {
        "rabbit_version": RABBIT_VERSION,
        "rabbitmq_version": RABBIT_VERSION,
        "product_name": "amqp-server",
        "product_version": __version__,
    }
    if vhost is None:
        top["rabbitmq_definition_format"] = "cluster"
        top["original_cluster_name"] = cluster_name
        top["explanation"] = f"Definitions of cluster '{cluster_name}'"
    else:
        top["rabbitmq_definition_format"] = "single_virtual_host"
        top["original_vhost_name"] = vhost
        top["explanation"] = f"Definitions of virtual host '{vhost}'"
        top["metadata"] = {}
        top["limits"] = []
    return top


def definitions_file(
    sections: Mapping[str, Sequence[dict[str, Any]]], vhost: str | None = None
) -> dict[str, Any]:
    """Return a definitions file.

    Args:
        sections: Exported entries by section.
        vhost: Virtual host that was exported; None: all.
    """
    name = next(
        (
            each["value"]
            for each in sections.get("global_parameters", ())
            if each["name"] == CLUSTER_NAME
        ),
        _NAMELESS,
    )
    top = head_of_file(vhost, name)
    names = SECTIONS if vhost is None else [s for s in SECTIONS if s not in CLUSTER_SECTIONS]
    ends = {
        name: {_end(each) for each in sections.get(name, ())} for name in ("queues", "exchanges")
    }
    for section in names:
        top[section] = list(sections.get(section, ()))
    # A client may have bound a queue that it has declared since the queues were listed.
    top["bindings"] = [
        each
        for each in top["bindings"]
        if each["destination_type"] != "queue"
        or (each.get("vhost"), each["destination"]) in ends["queues"]
    ]
    return top


def for_rabbitmq(definitions: dict[str, Any]) -> list[str]:
    """Change a file so that RabbitMQ 3.10 imports it; return the users without a password there.

    Args:
        definitions: Result of `definitions_file`; changed.
    """
    unreadable = []
    for user in definitions.get("users", ()):
        if user["hashing_algorithm"] == SCRYPT:
            if user["password_hash"]:
                unreadable.append(user["name"])
            user["password_hash"] = ""
            user["hashing_algorithm"] = SHA256
    return unreadable


def _end(entry: dict[str, Any]) -> tuple[str | None, str]:
    return entry.get("vhost"), entry["name"]
