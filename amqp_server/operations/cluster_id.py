"""The lasting id of a server, by which tools of RabbitMQ tell clusters apart.

It is the global parameter `internal_cluster_id`, as in RabbitMQ: it goes with the data directory,
and is not in definitions, which are for other servers too.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Final

from amqp_server.broker.parameters import CLUSTER_ID
from amqp_server.operations.parameter_settings import TooManyParametersError
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.operations.parameter_settings import ParameterSettings

logger = logging.getLogger("amqp_server.cluster_id")

_ID_BYTES: Final = 16


async def give_cluster_id(broker: Broker, settings: ParameterSettings) -> None:
    """Give a server an id that has none yet; return when it is on the disk.

    Args:
        broker: Broker of the server.
        settings: Changes its parameters.
    """
    if broker.global_parameters.get(CLUSTER_ID):
        return
    try:
        value = f"rabbitmq-cluster-id-{secrets.token_urlsafe(_ID_BYTES)}"
        await settings.set_global(CLUSTER_ID, value)
    except (MetadataError, TooManyParametersError) as error:
        # The next start tries again.
        logger.warning("no cluster id kept reason=%s", error)
