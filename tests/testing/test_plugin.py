"""The fixtures of pytest, in test runs of their own."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.servers import REPOSITORY
from tests.testing.test_ephemeral import wait_for_end

pytest_plugins = "pytester"
pytestmark = pytest.mark.crash

OURS = ("-p", "amqp_server.testing.plugin")
XDIST = ("-p", "xdist.plugin")
ASYNCIO = ("-p", "pytest_asyncio.plugin")

# Gives the brokers of a run a place of their own for files, and tells at the end of the run, and of
# each xdist worker, what is left of threads and sockets.
CONFTEST = """
import gc, pathlib, tempfile, threading
from amqp_server.testing import temporary_directory

FILES = pathlib.Path(__file__).parent / "files"
FILES.mkdir(exist_ok=True)
temporary_directory.MEMORY = FILES
tempfile.tempdir = str(FILES)

def pytest_unconfigure(config):
    gc.collect()
    threads = [each.name for each in threading.enumerate() if not getattr(each, "_is_execnet", "")]
    sockets = [each for each in pathlib.Path("/proc/self/net/tcp").read_text().splitlines()[1:]
               if each.split()[9] in inodes()]
    if hasattr(config, "workerinput"):
        report = pathlib.Path(config.rootpath / f"left-{config.workerinput['workerid']}")
    else:
        report = pathlib.Path(config.rootpath / "left")
    ours = [each for each in threads if "amqp" in each or "metadata" in each or "asyncio" in each]
    report.write_text(repr((ours, sockets)))

def inodes():
    found = set()
    for each in pathlib.Path("/proc/self/fd").iterdir():
        try:
            target = str(each.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found
"""

BLOCKING = """
import pika, pytest

@pytest.mark.parametrize("number", range(4))
def test_each_test_begins_with_nothing(amqp_url, number):
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        channel = connection.channel()
        assert channel.queue_declare("orders", durable=True).method.message_count == 0
        channel.basic_publish("", "orders", b"left behind")

def test_a_restart_keeps_what_is_durable(amqp_broker):
    before = amqp_broker.url
    with pika.BlockingConnection(pika.URLParameters(amqp_broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2))
    amqp_broker.restart()
    assert amqp_broker.url == before
    with pika.BlockingConnection(pika.URLParameters(amqp_broker.url)) as connection:
        assert connection.channel().basic_get("orders", auto_ack=True)[2] == b"one"

def test_an_outage(amqp_broker):
    amqp_broker.stop()

def test_the_broker_is_back_after_a_test_that_left_it_stopped(amqp_broker, amqp_url):
    assert amqp_url == amqp_broker.url
    pika.BlockingConnection(pika.URLParameters(amqp_broker.url)).close()
"""

ASYNCHRONOUS = """
import aio_pika, pytest

{mark}
@pytest.mark.parametrize("number", range(3))
async def test_each_test_begins_with_nothing(amqp_url, number):
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("orders")
        assert queue.declaration_result.message_count == 0
        await channel.default_exchange.publish(aio_pika.Message(b"one"), "orders")
        async with queue.iterator() as messages:
            async for message in messages:
                await message.ack()
                break
"""

KILLING = """
import pika

def test_a_confirmed_message_survives_a_kill(amqp_broker_process):
    url = amqp_broker_process.url
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2))
        amqp_broker_process.kill()
        assert not amqp_broker_process.is_running
        try:
            connection.channel()
        except pika.exceptions.AMQPConnectionError:
            pass
    amqp_broker_process.restart()
    assert amqp_broker_process.url == url
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        method, _, body = connection.channel().basic_get("orders")
        assert (method.redelivered, body) == (True, b"one")
"""


@pytest.fixture(autouse=True)
def only_named_plugins(monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester) -> None:
    """Load the plugin by its module: the entry point is there only where it was installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)


def run(pytester: pytest.Pytester, *options: str, passed: int) -> None:
    result = pytester.runpytest_subprocess("-W", "error", *OURS, *options, timeout=60)
    result.assert_outcomes(passed=passed)
    assert "warning" not in result.stdout.str().lower()
    assert result.stderr.str() == ""
    assert list((pytester.path / "files").iterdir()) == []
    reports = list(pytester.path.glob("left*"))
    assert [report.read_text() for report in reports] == ["([], [])"] * len(reports)
    assert reports


def test_each_test_has_an_empty_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BLOCKING)
    run(pytester, passed=7)


def test_each_worker_of_xdist_has_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BLOCKING)
    run(pytester, *XDIST, "--numprocesses=2", passed=7)
    assert len(list(pytester.path.glob("left-gw*"))) == 2


@pytest.mark.parametrize(("mode", "mark"), [("strict", "@pytest.mark.asyncio"), ("auto", "")])
def test_asyncio_tests_use_it(pytester: pytest.Pytester, mode: str, mark: str) -> None:
    pytester.makepyfile(ASYNCHRONOUS.format(mark=mark))
    scope = "asyncio_default_fixture_loop_scope=function"
    run(pytester, *ASYNCIO, f"--asyncio-mode={mode}", "-o", scope, passed=3)


def test_a_broker_process_can_be_killed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(KILLING)
    run(pytester, passed=1)


FIXTURES = (
    "amqp_broker",
    "amqp_broker_process",
    "amqp_celery_app",
    "amqp_celery_config",
    "amqp_celery_session_config",
    "amqp_session_broker",
    "amqp_url",
)

FAILING = """
import pika

def test_it(amqp_broker):
    with pika.BlockingConnection(pika.URLParameters(amqp_broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", b"one")
        channel.basic_publish("", "orders", b"two")
        channel.basic_get("orders")
        assert False

def test_that_uses_no_broker():
    assert False

def test_outage(amqp_broker):
    amqp_broker.stop()
    assert False
"""

LEAKING = """
import pika

def test_that_leaks(amqp_url):
    global channel
    channel = pika.BlockingConnection(pika.URLParameters(amqp_url)).channel()
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"one")
    assert channel.basic_get("orders")[2] == b"one"

def test_that_closes_what_the_other_left():
    try:
        channel.basic_ack(1)
        channel.queue_declare("orders")
    except pika.exceptions.AMQPError:
        pass

def test_that_closes(amqp_url):
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        opened = connection.channel()
        opened.queue_declare("orders")
        opened.basic_publish("", "orders", b"one")
        opened.basic_get("orders")
"""


def test_the_report_of_a_failed_test_shows_what_the_broker_holds(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(FAILING)
    result = pytester.runpytest_subprocess(*OURS)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "* AMQP broker *",
            "queues of virtual host 'test-1':",
            "  orders: 2 ready, 0 unacked, 2 published, consumers: 0",
            "connections:",
            "  none",
            "*___ test_that_uses_no_broker ___*",
            "*___ test_outage ___*",
            "* AMQP broker *",
            "not available: the broker is stopped: call start()",
        ]
    )
    assert result.stdout.str().count(" AMQP broker ") == 2


def test_a_test_that_leaves_channels_or_messages_is_warned(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(LEAKING)
    result = pytester.runpytest_subprocess(*OURS)
    result.assert_outcomes(passed=3, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*BrokerLeakWarning: *.py::test_that_leaks left behind: 127.0.0.1:*: open channels: 1, "
            "1 unacked of 'orders'"
        ]
    )


def test_leaks_are_errors_if_the_run_asks_for_that(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(LEAKING)
    pytester.makeini("[pytest]\nfilterwarnings = error::amqp_server.testing.BrokerLeakWarning\n")
    result = pytester.runpytest_subprocess(*OURS)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["E*BrokerLeakWarning: *::test_that_leaks left behind: *"])


ONE_AFTER_THE_OTHER = """
import pika
import pytest

async def vhosts(server):
    return set(server.broker.vhosts)

def test_that_leaks(amqp_url):
    global channel
    channel = pika.BlockingConnection(pika.URLParameters(amqp_url)).channel()

@pytest.mark.parametrize("number", range(3))
def test_that_makes_another(amqp_broker, amqp_session_broker, number):
    with amqp_session_broker.new_vhost():
        pass
    names = amqp_session_broker.submit(vhosts).result()
    assert names == {"/", amqp_broker.vhost}
    assert set(amqp_session_broker._records) <= names

def test_what_the_others_left(amqp_session_broker):
    assert amqp_session_broker.submit(vhosts).result() == {"/"}
    assert set(amqp_session_broker._records) <= {"/"}
"""


def test_the_virtual_host_of_a_test_ends_with_it_also_when_it_leaks(
    pytester: pytest.Pytester,
) -> None:
    """The broker of a run does not grow with its tests, nor does what it remembers."""
    pytester.makepyfile(ONE_AFTER_THE_OTHER)
    pytester.makeini("[pytest]\nfilterwarnings = error::amqp_server.testing.BrokerLeakWarning\n")
    pytester.runpytest_subprocess(*OURS).assert_outcomes(passed=5, errors=1)


def test_the_fixtures_explain_themselves(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*OURS, "--fixtures")
    for name in FIXTURES:
        result.stdout.fnmatch_lines([f"{name}*-- *plugin.py:*", "    ?*"])


def test_a_run_that_uses_no_fixture_imports_nothing_of_the_broker(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest("")
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            rooms = ("amqp_server", "appendlog", "metadata", "offsets", "ring", "uvloop")
            assert {each for each in sys.modules if each.partition(".")[0] in rooms} == {
                "amqp_server", "amqp_server.testing", "amqp_server.testing.plugin",
                "amqp_server.testing.faults", "amqp_server.testing.faults.marker",
            }
        """
    )
    pytester.runpytest_subprocess(*OURS).assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_where_the_broker_is_installed() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"amqp_server": OURS[1]}


def test_a_killed_run_takes_its_broker_process_with_it(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "from amqp_server.testing import BrokerProcess\n"
        "process = BrokerProcess().start()\n"
        "print(process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        (sys.executable, "-c", program), stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as run:
        assert run.stdout is not None
        wait_for_end(int(run.stdout.readline()))
