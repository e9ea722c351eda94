"""A server that is killed during a long deletion has all of it after a restart, or nothing."""

import json
import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.base import Frame
from pamqp.commands import Exchange, Queue

from tests.amqp_client import PERSISTENT, ConnectionLostError, connect
from tests.servers import RunningServer

pytestmark = pytest.mark.crash

BINDINGS = 200
KILLS = 3
DELETIONS = {
    "queue": Queue.Delete(queue="queue"),
    "source": Exchange.Delete(exchange="source"),
    "target": Exchange.Delete(exchange="target"),
}


def make(server: RunningServer) -> None:
    """Make a queue and two exchanges with many bindings, or what is missing of them."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("kept", durable=True)
        client.declare("queue", durable=True)
        for name in ("source", "target"):
            client.call(Exchange.Declare(exchange=name, durable=True), Exchange.DeclareOk)
        if not client.ready_count("queue"):
            client.publish(b"kept", "queue", properties=PERSISTENT)
            client.expect_confirmed()
        binds: list[Frame] = []
        for number in range(BINDINGS):
            binds += (
                Queue.Bind(queue="queue", exchange="amq.direct", routing_key=str(number)),
                Queue.Bind(queue="kept", exchange="source", routing_key=str(number)),
                Exchange.Bind(destination="target", source="amq.topic", routing_key=str(number)),
            )
        client.send_raw(b"".join(frame.marshal(bind, 1) for bind in binds))
        for _ in binds:
            client.receive()


def delete(server: RunningServer, answered: list[str]) -> None:
    """Delete all; note what was answered."""
    with suppress(ConnectionLostError, ConnectionError), connect(server.address) as client:
        client.open_channel()
        for method in DELETIONS.values():
            client.send(method)
        for name in DELETIONS:
            client.receive()
            answered.append(name)


def stored(storage_path: Path) -> dict[str, tuple[bool, int]]:
    """Return whether each is on the disk, and with how many bindings."""
    root = storage_path / "metadata"
    counts = dict.fromkeys(DELETIONS, 0)
    for path in root.glob("bindings/%2f/*.json"):
        body = json.loads(path.read_bytes())["body"]
        (name,) = counts.keys() & {body["source"], body["destination"]}
        counts[name] += 1
    names = {path.stem for kind in ("queues", "exchanges") for path in root.glob(f"{kind}/%2f/*")}
    return {name: (name in names, count) for name, count in counts.items()}


def test_a_kill_during_deletions_leaves_all_of_each_or_nothing(server: RunningServer) -> None:
    chance = random.Random(7)
    for _ in range(KILLS):
        make(server)
        answered: list[str] = []
        deleting = threading.Thread(target=delete, args=(server, answered))
        deleting.start()
        time.sleep(chance.random() * 0.1)
        server.kill()
        deleting.join()
        server.restart()

        report = json.loads((server.storage_path / "recovery.json").read_bytes())
        assert report["outcome"] in ("clean", "torn")
        found = stored(server.storage_path)
        assert set(found.values()) <= {(True, BINDINGS), (False, 0)}, found
        assert not [name for name in answered if found[name][0]]
        with connect(server.address) as client:
            client.open_channel()
            client.declare("queue", durable=True)
            assert client.ready_count("queue") == found["queue"][0]
