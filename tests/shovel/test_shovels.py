"""Shovels of a real server: set, run, change and end."""

import asyncio

import pytest

from amqp_server.protocol.table_json import table_to_json
from tests.conftest import StartServer
from tests.servers import NO_MANAGEMENT
from tests.shovel.link.messages import header_of, properties_of
from tests.shovel.link.test_moving import drain, fill
from tests.shovel.shovel_host import ShovelHost, opened, shovel_processes


@pytest.fixture
def host(start_server: StartServer) -> ShovelHost:
    return ShovelHost(start_server(environment=NO_MANAGEMENT))


async def test_a_shovel_moves_what_is_there_and_what_comes(host: ShovelHost) -> None:
    async with opened(host.url, host.url) as (fed, read):
        await fed.declare_queue("from")
        await fed.declare_queue("to")
        await fill(fed, "from", [b"1", b"2"])
        host.set("s")
        assert [body for _, body in await drain(read, "to", 2)] == [b"1", b"2"]
        await fill(fed, "from", [b"3"])
        assert [body for _, body in await drain(read, "to", 1)] == [b"3"]
    row = host.rows()["s"]
    assert row.pop("timestamp")
    row.pop("forwarded", None)
    assert row == {
        "name": "s",
        "vhost": "/",
        "type": "dynamic",
        "state": "running",
        "src_uri": "amqp://",
        "dest_uri": "amqp://",
        "src_protocol": "amqp091",
        "dest_protocol": "amqp091",
        "src_queue": "from",
        "dest_queue": "to",
    }


async def test_a_missing_queue_is_declared_unless_it_should_be_there(host: ShovelHost) -> None:
    async with opened(host.url, host.url) as (channel, other):
        await channel.declare_queue("from")
        await fill(channel, "from", [b"1"])
        arguments = {"x-max-length": 7}
        host.set("s", dest_queue_args=arguments, src_delete_after=1)
        host.server.wait_for_message("shovel is done")
        assert (await other.queue_counts("to"))[0] == 1
        found = host.asking.listed("bindings.list", "bindings", vhost="/")
        assert {each["destination"] for each in found} == {"from", "to"}
        host.set("p", src_queue="nowhere", src_predeclared=True, reconnect_delay=0)
        host.server.wait_for_message("shovel failed vhost='/' name='p'")
        row = host.rows()["p"]
        assert row["state"] == "terminated"
        assert row["reason"] == "404 NOT_FOUND - no queue 'nowhere' in vhost '/'"


@pytest.mark.parametrize(("after", "moved"), [(301, 301), ("queue-length", 1200), (0, 0)])
async def test_it_deletes_itself_after_exactly_so_many(
    host: ShovelHost, after: int | str, moved: int
) -> None:
    async with opened(host.url) as (channel,):
        await channel.declare_queue("from")
        await channel.declare_queue("to")
        await fill(channel, "from", [b"%d" % number for number in range(1200)])
        host.set("s", src_delete_after=after)
        host.server.wait_for_message("shovel is done")
        assert host.rows() == {}
        assert host.asking.ask("parameters.list", component="shovel") == []
        assert (await channel.queue_counts("to"))[0] == moved
        rest = 1200 - moved
        assert await drain(channel, "from", rest) == [
            (str(number), b"%d" % number) for number in range(moved, 1200)
        ]


async def test_messages_of_an_exchange_go_to_an_exchange(host: ShovelHost) -> None:
    async with opened(host.url, host.url) as (fed, read):
        await read.declare_queue("to")
        await read.bind_queue("to", "amq.fanout", "")
        keys = {"src_exchange": "amq.topic", "src_exchange_key": "a.#"}
        host.set("s", **keys, dest_exchange="amq.fanout", dest_add_forward_headers=True)
        host.server.wait_for_message("shovel running vhost='/' name='s'")
        await fed.publish("amq.topic", "a.b", header_of(b"1", headers={}), b"1")
        (found,) = await (await read.consume("to")).next_batch()
        assert (found.exchange, found.routing_key, found.body) == ("amq.fanout", "a.b", b"1")
        headers = properties_of(found.header).headers
        assert headers is not None
        (hop,) = table_to_json(headers)["x-shovelled"]
        texts = hop["value"]
        assert texts.pop("shovelled-by").startswith("rabbit@")
        assert texts == {
            "shovel-type": "dynamic",
            "shovel-name": "s",
            "shovel-vhost": "/",
            "src-uri": "amqp://",
            "dest-uri": "amqp://",
            "src-exchange": "amq.topic",
            "src-exchange-key": "a.#",
            "dest-exchange": "amq.fanout",
        }


async def test_properties_can_be_replaced_and_the_time_added(host: ShovelHost) -> None:
    async with opened(host.url, host.url) as (fed, read):
        await fed.declare_queue("from")
        await read.declare_queue("to")
        header = header_of(b"1", app_id="mine", message_id="m", priority=3)
        await fed.publish("", "from", header, b"1")
        replaced = {"app_id": "theirs", "delivery_mode": 2}
        host.set("s", dest_publish_properties=replaced, dest_add_timestamp_header=True)
        (found,) = await (await read.consume("to")).next_batch()
        properties = properties_of(found.header)
        assert (properties.app_id, properties.delivery_mode) == ("theirs", 2)
        assert (properties.message_id, properties.priority) == ("m", 3)
        assert properties.headers is not None
        assert properties.headers["x-shovelled-timestamp"].kind == b"l"


async def test_a_changed_shovel_works_as_it_says_now(host: ShovelHost) -> None:
    async with opened(host.url, host.url, host.url) as (fed, read, other):
        for name in ("from", "to", "other"):
            await fed.declare_queue(name)
        host.set("s")
        host.server.wait_for_message("shovel running vhost='/' name='s' starts=1")
        bodies = [b"%d" % number for number in range(2000)]
        await fill(fed, "from", bodies[:1000])
        host.set("s", dest_queue="other")
        host.server.wait_for_message("shovel running vhost='/' name='s' starts=2")
        await fill(fed, "from", bodies[1000:])
        found: set[bytes] = set()
        taken = [await read.consume("to"), await other.consume("other")]
        # What was in flight at the change may be in both.
        activity = asyncio.Event()
        for channel in (read, other):
            channel.share_activity(activity)
        while len(found) < 2000:
            activity.clear()
            arrived = [delivery.body for each in taken for delivery in each.take()]
            found.update(arrived)
            if not arrived:
                await activity.wait()
        assert found == set(bodies)


async def test_the_process_comes_with_the_first_and_goes_with_the_last(host: ShovelHost) -> None:
    assert shovel_processes(host.server.pid) == []
    host.set("a", dest_queue="a")
    host.set("b", dest_queue="b")
    host.server.wait_for_message("shovel running vhost='/' name='b'")
    assert len(shovel_processes(host.server.pid)) == 1
    host.clear("a")
    assert len(shovel_processes(host.server.pid)) == 1
    host.clear("b")
    host.server.wait_for_message("shovels ended")
    assert shovel_processes(host.server.pid) == []


async def test_a_deleted_vhost_ends_its_shovels(host: ShovelHost) -> None:
    host.asking.ask("vhosts.set", name="v")
    async with opened(f"{host.url}/v") as (channel,):
        await channel.declare_queue("from")
        host.set("s", vhost="v", src_uri="amqp:///v", dest_uri="amqp:///v")
        host.set("kept")
        host.server.wait_for_message("shovel running vhost='v' name='s'")
        host.asking.ask("vhosts.delete", name="v")
    assert host.rows().keys() == {"kept"}


async def test_shovels_run_again_after_a_restart_of_the_server(host: ShovelHost) -> None:
    async with opened(host.url) as (fed,):
        await fed.declare_queue("from")
        await fed.declare_queue("to")
        host.set("s")
    host.server.terminate()
    host.server.start()
    async with opened(host.url) as (fed,):
        await fill(fed, "from", [b"1"])
        assert await drain(fed, "to", 1) == [("0", b"1")]


async def test_a_restarted_shovel_starts_again(host: ShovelHost) -> None:
    host.set("s")
    host.server.wait_for_message("shovel running vhost='/' name='s' starts=1")
    host.asking.ask("shovels.restart", vhost="/", name="s")
    host.server.wait_for_message("shovel running vhost='/' name='s' starts=2")
    assert host.asking.refusal("shovels.restart", vhost="/", name="t").kind == "not_found"
