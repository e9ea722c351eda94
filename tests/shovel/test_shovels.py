"""Shovels of a real server: set, run, change and end."""

import asyncio
import os
import re
import signal
from multiprocessing.connection import wait as wait_for

import pytest

from amqp_server.broker.parameters import parameter_document
from amqp_server.protocol.field_values import table_of
from amqp_server.protocol.table_json import table_to_json
from amqp_server.shovel.settings import LINE_BYTES_MAX
from cli.rabbitmq_tools.main import run
from metadata.store import MetadataStore
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
    row = host.until("s", "running")
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
        row = host.until("p", "terminated")
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
        host.until_there_are()
        assert host.asking.ask("parameters.list", component="shovel") == []
        assert (await channel.queue_counts("to"))[0] == moved
        rest = 1200 - moved
        assert await drain(channel, "from", rest) == [
            (str(number), b"%d" % number) for number in range(moved, 1200)
        ]


@pytest.mark.parametrize("after", ["queue-length", 700])
async def test_a_destination_that_is_full_for_a_while_gets_all_of_them_once(
    host: ShovelHost, after: int | str
) -> None:
    numbers = [b"%d" % number for number in range(700)]
    async with opened(host.url, host.url) as (fed, read):
        await fed.declare_queue("from")
        full = table_of({"x-max-length": 10, "x-overflow": "reject-publish"})
        await read.declare_queue("to", full)
        await fill(fed, "from", [*numbers, b"stays"] if after == 700 else numbers)
        host.set("s", src_delete_after=after, src_prefetch_count=100)
        # Nobody takes anything before the queue is full.
        while (await fed.queue_counts("to"))[0] < 10:
            pass
        # What was refused comes again, behind others.
        found = [body for _, body in await drain(read, "to", 700)]
        assert sorted(found) == sorted(numbers)
        host.server.wait_for_message("shovel is done")
        assert await read.queue_counts("to") == (0, 0)
        assert (await fed.queue_counts("from"))[0] == (after == 700)


async def test_a_stream_is_read_from_where_it_says_and_keeps_its_messages(
    host: ShovelHost,
) -> None:
    async with opened(host.url, host.url) as (fed, read):
        stream = {"x-queue-type": "stream"}
        await fed.declare_queue("from", table_of(stream))
        await fed.declare_queue("to")
        await fill(fed, "from", [b"%d" % number for number in range(1200)])
        offset = {"x-stream-offset": 100}
        host.set("s", src_queue_args=stream, src_consumer_args=offset, src_delete_after=301)
        host.server.wait_for_message("shovel is done")
        expected = [(str(number), b"%d" % number) for number in range(100, 401)]
        assert await drain(read, "to", 301) == expected
        assert await read.queue_counts("to") == (0, 0)
        # And on as it grows, by another one.
        host.set("t", src_queue_args=stream, src_consumer_args=offset)
        found = await drain(read, "to", 1100)
        assert found == [(str(number), b"%d" % number) for number in range(100, 1200)]
        await fed.publish("", "from", header_of(b"new"), b"new")
        assert [body for _, body in await drain(read, "to", 1)] == [b"new"]


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


def test_a_server_stops_while_the_process_is_ended(host: ShovelHost) -> None:
    host.set("s")
    host.server.wait_for_message("shovel running vhost='/' name='s'")
    # It does not end by itself now, so the server is still waiting for it.
    os.kill(host.pid_of_shovels(), signal.SIGSTOP)
    host.clear("s")
    assert host.server.terminate() == 0


def test_the_process_dies_with_the_server(host: ShovelHost) -> None:
    host.set("s")
    host.server.wait_for_message("shovel running vhost='/' name='s'")
    watched = os.pidfd_open(host.pid_of_shovels())
    try:
        host.server.kill()
        wait_for([watched])
    finally:
        os.close(watched)


async def test_a_parameter_that_was_no_shovel_before_is_shown_as_one_that_failed(
    host: ShovelHost,
) -> None:
    host.server.terminate()
    store = MetadataStore(host.server.storage_path / "metadata")
    await store.put(parameter_document("/", "shovel", "old", {"zzz": "x" * 70_000}))
    await store.close()
    host.server.start()
    host.set("s")
    host.server.wait_for_message("shovel running vhost='/' name='s'")
    row = host.until("old", "terminated")
    assert row["reason"].startswith("Must specify 'src-exchange' or 'src-queue'; Unrecognised")
    assert len(shovel_processes(host.server.pid)) == 1


async def test_why_an_old_parameter_is_no_shovel_is_told_without_a_password(
    host: ShovelHost,
) -> None:
    host.server.terminate()
    store = MetadataStore(host.server.storage_path / "metadata")
    value = {"uri": "amqp://user:sec@ret@host/v", "list": ["amqps://user:secret@other"]}
    await store.put(parameter_document("/", "shovel", "old", value))
    await store.close()
    host.server.start()
    host.set("s")
    host.server.wait_for_message("shovel running vhost='/' name='s'")
    reason = host.until("old", "terminated")["reason"]
    assert "amqp://host/v" in reason
    assert "amqps://other" in reason
    assert not {"sec", "ret", "secret"} & set(re.findall(r"\w+", reason))


async def test_a_definition_that_is_too_large_does_not_keep_others_from_running(
    host: ShovelHost,
) -> None:
    host.server.terminate()
    store = MetadataStore(host.server.storage_path / "metadata")
    large = {"x": "y" * LINE_BYTES_MAX}
    ends = {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "a", "dest-queue": "b"}
    value = {**ends, "dest-queue-args": large}
    await store.put(parameter_document("/", "shovel", "large", value))
    await store.close()
    host.server.start()
    host.set("s")
    host.server.wait_for_message("shovel running vhost='/' name='s'")
    row = host.until("large", "terminated")
    assert row["reason"].endswith("at most 1048576 run")


async def test_a_deleted_vhost_ends_its_shovels(host: ShovelHost) -> None:
    host.asking.ask("vhosts.set", name="v")
    async with opened(f"{host.url}/v") as (channel,):
        await channel.declare_queue("from")
        host.set("s", vhost="v", src_uri="amqp:///v", dest_uri="amqp:///v")
        host.set("kept")
        host.server.wait_for_message("shovel running vhost='v' name='s'")
        host.asking.ask("vhosts.delete", name="v")
    host.until_there_are("kept")


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


async def test_a_user_sets_shovels_only_where_it_may_work(host: ShovelHost) -> None:
    host.asking.ask("vhosts.set", name="secret")
    maker = host.asking.add_user("maker", ".*", ".*", ".*")
    place = {"vhost": "/", "component": "shovel", "name": "s"}
    ends = {"src-queue": "a", "dest-queue": "b", "dest-uri": "amqp://"}
    for uri, keys in (
        ("amqp:///secret", {}),
        ("amqp:///nowhere", {}),
        ("amqp://other/secret", {"src-protocol": "local"}),
    ):
        vhost = uri.rpartition("/")[2]
        value = {**ends, **keys, "src-uri": uri}
        error = maker.refusal("parameters.set", **place, value={"value": value})
        assert error.kind == "invalid_argument"
        assert error.reason == f'user "maker" may not connect to vhost "{vhost}"'
    assert maker.ask("parameters.set", **place, value={"value": {**ends, "src-uri": "amqp://"}})


def test_the_verbs_of_rabbitmqctl(host: ShovelHost, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(host.server.storage_path)
    assert run("rabbitmqctl", path, ("shovel_status", "--formatter", "json")) == 0
    assert capsys.readouterr().out == "[]\n"
    host.set("s", dest_queue="b", src_uri="amqp://guest:guest@127.0.0.1:1")
    assert run("rabbitmqctl", path, ("shovel_status", "-q")) == 0
    shown = capsys.readouterr().out
    header, row = (line.split("\t") for line in shown.strip("\n").split("\n"))
    found = dict(zip(header, row, strict=True))
    assert found.pop("last_changed")
    assert found.pop("state") in ("starting", "terminated")
    found.pop("termination_reason")
    assert {name: value for name, value in found.items() if value} == {
        "name": "s",
        "vhost": "/",
        "type": "dynamic",
        "source": "amqp://127.0.0.1:1",
        "source_protocol": "amqp091",
        "source_queue": "from",
        "destination": "amqp://",
        "destination_protocol": "amqp091",
        "destination_queue": "b",
    }
    assert run("rabbitmqctl", path, ("-q", "restart_shovel", "s")) == 0
    for verb in ("restart_shovel", "delete_shovel"):
        assert run("rabbitmqctl", path, ("-q", verb, "t")) == 69
        assert "Shovel with the given name was not found on the target node" in (
            capsys.readouterr().err
        )
    assert run("rabbitmqctl", path, ("-q", "delete_shovel", "s")) == 0
    assert host.rows() == {}


async def test_none_runs_where_they_are_off(start_server: StartServer) -> None:
    host = ShovelHost(start_server("--no-shovels", environment=NO_MANAGEMENT))
    async with opened(host.url) as (channel,):
        await channel.declare_queue("from")
        await channel.declare_queue("to")
        await fill(channel, "from", [b"1"])
        host.set("s")
        host.server.wait_for_message("shovels do not run")
        for _ in range(2):
            row = host.until("s", "terminated")
            assert row["reason"] == "the server was started with --no-shovels"
            assert shovel_processes(host.server.pid) == []
            host.asking.ask("shovels.restart", vhost="/", name="s")
        assert await channel.queue_counts("from") == (1, 0)
        assert await channel.queue_counts("to") == (0, 0)
