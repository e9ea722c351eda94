"""The fixtures beside other plugins, event loops and builds, in test runs of their own."""

import os

import pytest

from tests.testing.test_plugin import ASYNCIO, BLOCKING, XDIST, only_named_plugins, run

pytest_plugins = "pytester"
pytestmark = pytest.mark.crash

__all__ = ["only_named_plugins"]

ANYIO = ("-p", "anyio.pytest_plugin")

ASYNCIO_BACKENDS = """
import aio_pika, asyncio, pytest, uvloop

pytestmark = pytest.mark.anyio

@pytest.fixture(params=[("asyncio", {}), ("asyncio", {"use_uvloop": True})], ids=str)
def anyio_backend(request):
    return request.param

@pytest.fixture
async def channel(amqp_url):
    async with await aio_pika.connect(amqp_url) as connection:
        yield await connection.channel(publisher_confirms=True)

async def test_a_client_of_asyncio(channel, amqp_broker, anyio_backend):
    is_uvloop = isinstance(asyncio.get_running_loop(), uvloop.Loop)
    assert is_uvloop == ("use_uvloop" in anyio_backend[1])
    queue = await channel.declare_queue("orders")
    assert queue.declaration_result.message_count == 0
    await channel.default_exchange.publish(aio_pika.Message(b"one"), "orders")
    await amqp_broker.queue("orders").until_holds(1)
    await (await queue.get()).ack()
    await amqp_broker.queue("orders").until_empty()
    await asyncio.to_thread(amqp_broker.assert_published, "orders", body=b"one")
"""

TRIO = """
import pika, pytest, trio

pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "trio"

def publish(url):
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        assert channel.queue_declare("orders").method.message_count == 0
        channel.basic_publish("", "orders", b"one")

def consume(url):
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection.channel().basic_get("orders", auto_ack=True)[2] == b"one"

@pytest.mark.parametrize("number", range(2))
async def test_a_blocking_client_in_threads_of_trio(amqp_broker, amqp_url, number):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, publish, amqp_url)
        await trio.to_thread.run_sync(lambda: amqp_broker.assert_published("orders", body=b"one"))
    await trio.to_thread.run_sync(consume, amqp_url)
    await trio.to_thread.run_sync(amqp_broker.queue("orders").wait_empty)
    with trio.fail_after(30):
        await trio.to_thread.run_sync(amqp_broker.restart)
"""

UVLOOP = """
import asyncio
import aio_pika, uvloop
from amqp_server.testing import Broker

async def publish(url):
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("orders")
        await channel.default_exchange.publish(aio_pika.Message(b"one"), "orders")

def test_that_runs_uvloop_itself(amqp_broker):
    uvloop.run(publish(amqp_broker.url))
    assert amqp_broker.queue("orders").ready == 1

def test_a_broker_inside_uvloop():
    async def use():
        async with Broker() as broker:
            await publish(broker.url)
            await broker.queue("orders").until_holds(1)
    uvloop.run(use())
"""

# Each worker waits in `open` for the other one, so that both have a broker at that time.
MEETING = """
import os, pathlib

def test_both_workers_have_a_broker(amqp_session_broker, worker_id):
    meeting = pathlib.Path(__file__).parent / "meeting"
    if worker_id == "gw0":
        with meeting.open("w") as other:
            other.write(f"{os.getpid()} {amqp_session_broker.port}")
    else:
        with meeting.open() as other:
            pid, port = map(int, other.read().split())
        assert pid != os.getpid()
        assert port != amqp_session_broker.port
"""

INTERPRETED = """
from amqp_server.protocol import framing
from appendlog.layout import records

def test_the_kernels_are_interpreted(amqp_url):
    assert not (framing.COMPILED or records.COMPILED)
"""


def test_tests_of_anyio_use_it_with_both_loops_of_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASYNCIO_BACKENDS)
    run(pytester, *ANYIO, passed=2)


def test_tests_of_anyio_use_it_with_trio(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TRIO)
    run(pytester, *ANYIO, passed=2)


def test_anyio_and_pytest_asyncio_share_a_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_anyio=ASYNCIO_BACKENDS,
        test_asyncio="""
        import aio_pika, pytest

        @pytest.mark.asyncio
        async def test_of_the_other_plugin(amqp_url):
            async with await aio_pika.connect(amqp_url) as connection:
                await connection.channel()
        """,
    )
    scope = "asyncio_default_fixture_loop_scope=function"
    run(pytester, *ANYIO, *ASYNCIO, "--asyncio-mode=strict", "-o", scope, passed=3)


def test_tests_run_uvloop_themselves(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(UVLOOP)
    run(pytester, passed=2)


def test_workers_of_xdist_have_brokers_at_the_same_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MEETING)
    os.mkfifo(pytester.path / "meeting")
    run(pytester, *XDIST, "--numprocesses=2", "--dist=each", passed=2)
    assert len(list(pytester.path.glob("left-gw*"))) == 2


def test_it_works_with_interpreted_kernels(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_SERVER_PURE_PYTHON", "1")
    monkeypatch.delenv("AMQP_SERVER_REQUIRE_COMPILED", raising=False)
    pytester.makepyfile(test_orders=BLOCKING, test_kernels=INTERPRETED)
    run(pytester, passed=8)
