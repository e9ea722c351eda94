"""Several clients declare, bind and delete the same names; memory and disk stay equal."""

import random
import threading

import pytest
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

pytestmark = pytest.mark.crash

CLIENTS = 4
CHANGES = 60
NAMES = "ab"


def change(chance: random.Random) -> Frame:
    """Return a change of something that others change as well."""
    name, other = chance.choice(NAMES), chance.choice(NAMES)
    return chance.choice(
        (
            Queue.Declare(queue=name, durable=True),
            Queue.Declare(queue=name, durable=True),
            Queue.Delete(queue=name),
            Exchange.Declare(exchange=name, durable=True),
            Exchange.Declare(exchange=name, durable=True),
            Exchange.Delete(exchange=name),
            Queue.Bind(queue=name, exchange=other, routing_key="k"),
            Queue.Unbind(queue=name, exchange=other, routing_key="k"),
            Exchange.Bind(destination=name, source="amq.direct", routing_key="k"),
            Exchange.Unbind(destination=name, source="amq.direct", routing_key="k"),
        )
    )


def ask(client: AmqpClient, method: Frame) -> bool:
    """Send a method and return whether it was done; open the channel again if it was not."""
    client.send(method)
    _, answer = client.receive()
    if not isinstance(answer, Channel.Close):
        return True
    assert answer.reply_code == 404, answer.reply_text
    client.send(Channel.CloseOk())
    client.call(Channel.Open(), Channel.OpenOk)
    client.call(Confirm.Select(), Confirm.SelectOk)
    return False


def work(server: RunningServer, seed: int) -> None:
    chance = random.Random(seed)
    with connect(server.address) as client:
        client.open_channel()
        for _ in range(CHANGES):
            ask(client, change(chance))


def what_is_there(server: RunningServer) -> dict[str, bool]:
    """Return which names exist, and which exchanges lead somewhere."""
    found = {}
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for name in NAMES:
            found[f"queue {name}"] = ask(client, Queue.Declare(queue=name, passive=True))
            found[f"exchange {name}"] = ask(client, Exchange.Declare(exchange=name, passive=True))
        for name in ["amq.direct", *(name for name in NAMES if found[f"exchange {name}"])]:
            client.send_raw(
                client.publish_octets(Basic.Publish(0, name, "k", True), b"x", Basic.Properties())
            )
            returned = False
            while not isinstance(answer := client.receive()[1], Basic.Ack):
                returned |= isinstance(answer, Basic.Return)
            found[f"routed by {name}"] = not returned
    return found


def test_after_a_kill_the_disk_has_the_definitions_that_memory_had(server: RunningServer) -> None:
    for seed in range(4):
        workers = [
            threading.Thread(target=work, args=(server, seed * CLIENTS + number))
            for number in range(CLIENTS)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        before = what_is_there(server)
        server.kill()
        server.restart()
        assert what_is_there(server) == before, seed
