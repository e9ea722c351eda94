"""The marker of pytest, in test runs of their own."""

import pytest

pytest_plugins = "pytester"

MARKED = """
import pika, pytest

pytestmark = pytest.mark.amqp_fault("nack_confirms")

def published(url):
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders")
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "orders", b"one")
        return channel.queue_declare("orders", passive=True).method.message_count

def test_of_the_module(amqp_url):
    assert published(amqp_url) == 1

@pytest.mark.amqp_fault("full_disk")
def test_of_two_faults(amqp_url):
    assert published(amqp_url) == 1

@pytest.mark.amqp_fault("block_publishers", "disk")
def test_with_an_argument(amqp_url):
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        seen = []
        connection.add_on_connection_blocked_callback(lambda _, frame: seen.append(frame.method))
        connection.channel().basic_publish("", "orders", b"one")
        while not seen:
            connection.process_data_events(time_limit=5)
        assert seen[0].reason == "low on disk"

@pytest.mark.amqp_fault("refuse_logins")
def test_of_logins(amqp_url):
    with pytest.raises(pika.exceptions.AMQPConnectionError, match="403"):
        pika.BlockingConnection(pika.URLParameters(amqp_url))

@pytest.mark.amqp_fault("full_disk")
def test_that_leaves_the_broker_stopped(amqp_broker):
    amqp_broker.stop()

def test_after_them(amqp_url):
    assert published(amqp_url) == 1
"""

WRONG = """
import pytest

@pytest.mark.amqp_fault("refuse_publishes", "orders")
def test_of_a_queue_that_is_not_there_yet(amqp_url):
    pass
"""


@pytest.fixture(autouse=True)
def only_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    options = ("-W", "error", "--strict-markers", "-p", "amqp_server.testing.plugin")
    return pytester.runpytest_subprocess(*options, timeout=60)


def test_faults_last_as_long_as_their_test(pytester: pytest.Pytester) -> None:
    run(pytester, MARKED).assert_outcomes(passed=6)


def test_a_marker_of_another_fault_is_refused_with_those_that_there_are(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, WRONG)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["E *marker amqp_fault('refuse_publishes'): use one of*'chaos'*"])
