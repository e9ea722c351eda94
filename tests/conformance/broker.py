"""The broker under test: a server of ours, or the broker that AMQP_URL names."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from pamqp.commands import Channel, Exchange, Queue

from bench.broker_url import BrokerUrl
from tests.amqp_client import AmqpClient
from tests.conformance.polling import URL_VARIABLE, eventually


@dataclass(frozen=True, slots=True)
class Broker:
    """Where it is, as whom to log in, and the data directory of a server of ours."""

    url: BrokerUrl
    storage_path: Path | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.url.host, self.url.port


def named_url() -> BrokerUrl | None:
    """Return the URL of the broker that is tested instead of ours, if there is one."""
    url = os.environ.get(URL_VARIABLE)
    return BrokerUrl.parse(url) if url else None


@cache
def rabbitmq_version() -> str | None:
    """Return the version of the broker under test if that says it is RabbitMQ."""
    url = named_url()
    if url is None:
        return None
    with AmqpClient((url.host, url.port)) as client:
        client.login(user=url.user, password=url.password)
        properties = client.server_properties
        return str(properties.get("version")) if properties.get("product") == "RabbitMQ" else None


def remove(client: AmqpClient, names: Iterable[str]) -> None:
    """Delete the queues and the exchanges of these names, if there are any.

    A queue of a connection that was dropped may be locked for another moment.
    """
    for name in names:
        eventually(partial(_try_delete, client, Queue.Delete(queue=name)))
        eventually(partial(_try_delete, client, Exchange.Delete(exchange=name)))


def _try_delete(client: AmqpClient, method: Queue.Delete | Exchange.Delete) -> bool:
    client.open_channel()
    client.send(method)
    _, answer = client.receive()
    if isinstance(answer, Channel.Close):
        client.send(Channel.CloseOk())
        return False
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    return True
