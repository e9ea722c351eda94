"""`kill -9` of each end and of the process between them, under load: nothing is lost."""

import asyncio
from pathlib import Path

from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.channel import LinkChannel
from amqp_server.shovel.link.connection import connect
from amqp_server.shovel.link.errors import LinkError
from tests.conftest import StartServer
from tests.servers import NO_MANAGEMENT, RunningServer
from tests.shovel.link.messages import header_of
from tests.shovel.shovel_host import ShovelHost, opened

PERSISTENT = {"delivery_mode": 2}


class Publisher:
    """Publishes numbered messages until it is stopped, and again what was not confirmed.

    Args:
        server: Server with the queue; it may die and come back.
    """

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._is_stopped = False
        self.confirmed: set[bytes] = set()
        self._progress = asyncio.Event()

    async def run(self) -> None:
        """Publish until `stop`."""
        while not self._is_stopped:
            try:
                uri = f"amqp://guest:guest@127.0.0.1:{self._server.port}"
                async with await connect(AmqpUri.parse(uri)) as connection:
                    await self._publish(await connection.open_channel())
            except LinkError:
                await asyncio.sleep(0)

    async def _publish(self, channel: LinkChannel) -> None:
        confirms = await channel.confirm_select()
        first, sent = len(self.confirmed), 0
        while not self._is_stopped:
            for _ in range(20):
                body = b"%d" % (first + sent)
                await channel.publish("", "from", header_of(body, **PERSISTENT), body)
                sent += 1
            while confirms.unsettled > 200:
                await channel.activity()
                channel.check_open()
            self.confirmed.update(b"%d" % number for number in range(first + confirms.floor))
            self._progress.set()

    async def reaches(self, count: int) -> None:
        """Wait until so many messages are confirmed."""
        while len(self.confirmed) < count:
            self._progress.clear()
            await self._progress.wait()

    def stop(self) -> None:
        """Publish nothing more."""
        self._is_stopped = True


async def test_nothing_is_lost_when_each_part_is_killed_in_turn(
    start_server: StartServer, tmp_path: Path
) -> None:
    source = start_server(environment=NO_MANAGEMENT, storage_path=tmp_path / "source")
    host = ShovelHost(start_server(environment=NO_MANAGEMENT, storage_path=tmp_path / "host"))
    async with opened(f"amqp://{source.address[0]}:{source.port}", host.url) as channels:
        for channel, queue in zip(channels, ("from", "to"), strict=True):
            await channel.declare_queue(queue)
    port = source.port
    source.options = (*source.options, "--port", str(port))
    host.set("s", src_uri=f"amqp://127.0.0.1:{port}", reconnect_delay=0.2)
    publisher = Publisher(source)
    publishing = asyncio.create_task(publisher.run())
    await publisher.reaches(500)
    for kill in (host.kill_shovels, source.kill, host.server.kill, host.kill_shovels):
        seen = len(publisher.confirmed)
        await publisher.reaches(seen + 500)
        kill()
        for server in (source, host.server):
            if not server.is_running:
                await asyncio.to_thread(server.start)
        host.server.wait_for_message("shovel running vhost='/' name='s'")
    publisher.stop()
    await publishing
    found: set[bytes] = set()
    async with opened(host.url) as (read,):
        deliveries = await read.consume("to")
        while not publisher.confirmed <= found:
            found.update(each.body for each in await deliveries.next_batch())
    assert len(publisher.confirmed) >= 2500
