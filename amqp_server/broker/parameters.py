"""Values that are kept for other programs: parameters, and descriptions of virtual hosts.

The broker does not use them. It keeps what a definitions file contains, and gives it back.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from metadata.document import Document

PARAMETERS: Final = "parameters"
GLOBAL_PARAMETERS: Final = "global_parameters"
VHOST_METADATA: Final = "vhost_metadata"
VHOST_METADATA_NAME: Final = "metadata"
CLUSTER_ID: Final = "internal_cluster_id"
"""Global parameter with the lasting id of the server, named as in RabbitMQ."""
PARAMETERS_MAX: Final = 100_000
"""Parameters of one virtual host, and global ones."""

ParameterKey = tuple[str, str]
"""Component and name of a parameter."""


class ParameterOwner(NamedTuple):
    """The user who has set a parameter and is no administrator.

    What the server does because of the parameter, it does with the rights of this user.

    Attributes:
        user: Name of the user.
        backend: Name of the back end that let the user in.
    """

    user: str
    backend: str


def parameter_document(
    vhost: str, component: str, name: str, value: object, owner: ParameterOwner | None = None
) -> Document:
    """Return the document of a parameter; a component contains no `/`."""
    body: dict[str, Any] = {"component": component, "name": name, "value": value}
    if owner is not None:
        body["owner"] = owner._asdict()
    return Document(PARAMETERS, vhost, f"{component}/{name}", body)


def global_parameter_document(name: str, value: object) -> Document:
    """Return the document of a parameter that belongs to no virtual host."""
    return Document(GLOBAL_PARAMETERS, "", name, {"value": value})


def vhost_metadata_document(vhost: str, metadata: dict[str, Any]) -> Document:
    """Return the document of a virtual host's description, tags and the like."""
    return Document(VHOST_METADATA, vhost, VHOST_METADATA_NAME, {"metadata": metadata})
