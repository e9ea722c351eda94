"""Our shovels and RabbitMQ's, between both brokers: `make check-tools` runs this."""

import base64
import json
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

from bench.rabbitmq import free_ports, start_rabbitmq
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.servers import NO_MANAGEMENT
from tests.shovel.link.messages import header_of
from tests.shovel.link.test_moving import drain, fill
from tests.shovel.shovel_host import ShovelHost, opened
from tests.shovel.test_definition import MISTAKES

PLUGINS = ("rabbitmq_management", "rabbitmq_shovel", "rabbitmq_shovel_management")
COUNT = 3000


def put_shovel(port: int, value: dict[str, object]) -> tuple[int, str]:
    """Set the shovel `N` of RabbitMQ; return the status and the reason of a refusal."""
    login = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/parameters/shovel/%2F/N",
        json.dumps({"value": value}).encode(),
        {"authorization": f"Basic {login}", "content-type": "application/json"},
        method="PUT",
    )
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
            return answer.status, ""
    except HTTPError as error:
        return error.code, json.loads(error.read())["reason"]


async def test_both_move_messages_from_and_to_each_other(
    start_server: StartServer, tmp_path: Path
) -> None:
    host = ShovelHost(start_server(environment=NO_MANAGEMENT))
    directory = tmp_path / "rabbitmq"
    directory.mkdir()
    (port,) = free_ports(1)
    settings = f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\n"
    with start_rabbitmq("RabbitMQ", directory, plugins=PLUGINS, settings=settings) as rabbitmq:
        theirs = f"amqp://guest:guest@127.0.0.1:{rabbitmq.url.port}"
        bodies = [b"%d" % number for number in range(COUNT)] + [b"x" * 300_000]
        expected = [(str(number), body) for number, body in enumerate(bodies)]
        async with opened(host.url, theirs) as (ours, rabbit):
            for channel in (ours, rabbit):
                for queue in ("from", "to"):
                    await channel.declare_queue(queue)
            # Ours, from theirs and to theirs.
            await fill(rabbit, "from", bodies)
            host.set("pull", src_uri=theirs, src_delete_after="queue-length")
            assert await drain(ours, "to", len(bodies)) == expected
            host.server.wait_for_message("shovel is done vhost='/' name='pull'")
            await fill(ours, "from", bodies)
            host.set("push", dest_uri=theirs, src_delete_after="queue-length")
            assert await drain(rabbit, "to", len(bodies)) == expected
            # What cannot be routed there stays here.
            header = header_of(b"1")
            await ours.publish("", "from", header, b"1")
            host.set("lost", dest_uri=theirs, dest_exchange="amq.topic", dest_exchange_key="no")
            host.server.wait_for_message("shovel cannot deliver vhost='/' name='lost'")
            host.clear("lost")
            found = await drain(ours, "from", 1)
            assert [body for _, body in found] == [b"1"]
            # Theirs, from ours.
            await fill(ours, "from", bodies)
            shovel: dict[str, object] = {"src-uri": host.url, "dest-uri": "amqp://"}
            assert put_shovel(port, shovel | {"src-queue": "from", "dest-queue": "to"})[0] == 201
            assert await drain(rabbit, "to", len(bodies)) == expected
        for value, faults in MISTAKES:
            status, reason = put_shovel(port, value)
            text = reason.replace("&lt;", "<").replace("&gt;", ">")
            assert (status, text) == (400, "\n".join(["Validation failed\n", *faults, ""])), value
