"""Start-up: recovers parameters and the descriptions of virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.parameters import GLOBAL_PARAMETERS, PARAMETERS, VHOST_METADATA

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from metadata.loading import LoadReport


def recover_parameters(broker: Broker, report: LoadReport) -> None:
    """Give the broker the values that its data directory contains; a malformed one is left out."""
    for document in report.documents:
        body = document.body
        vhost = broker.vhosts.get(document.vhost)
        if document.kind == GLOBAL_PARAMETERS:
            broker.global_parameters[document.name] = body.get("value")
        elif vhost is None:
            continue
        elif document.kind == PARAMETERS:
            key = (str(body.get("component")), str(body.get("name")))
            vhost.parameters[key] = body.get("value")
        elif document.kind == VHOST_METADATA and isinstance(body.get("metadata"), dict):
            vhost.metadata = body["metadata"]
