"""Messages with a lifetime of 0 expire behind others when no consumer takes them at once."""

import time

import pytest
from pamqp.commands import Basic

from tests.amqp_client import PERSISTENT, connect
from tests.servers import RunningServer

AT_ONCE = Basic.Properties(delivery_mode=2, expiration="0")


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}, {"x-max-length-bytes": 1000}])
def test_messages_with_a_lifetime_of_zero_expire_behind_others_that_stay(
    server: RunningServer, arguments: dict[str, int]
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments=arguments)
        client.publish(b"0", "q")
        client.expect_confirmed()
        method = Basic.Publish(routing_key="q")
        burst = [(b"1", PERSISTENT), (b"2", AT_ONCE), (b"3", AT_ONCE), (b"4", PERSISTENT)]
        client.send_raw(b"".join(client.publish_octets(method, *each) for each in burst))
        client.published[1] += len(burst)
        client.expect_confirmed()

        taken = [client.get("q") for _ in range(4)]
        assert [message and message.body for message in taken] == [b"0", b"1", b"4", None]


def test_more_messages_than_one_turn_expires_are_neither_delivered_nor_counted(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        # Each has another lifetime than its neighbours, so that each is a run of its own.
        method = Basic.Publish(routing_key="q")
        lifetimes = [Basic.Properties(expiration=each) for each in ("1", "2")]
        pair = b"".join(client.publish_octets(method, b"x", each) for each in lifetimes)
        client.send_raw(pair * 5_000)
        client.published[1] += 10_000
        client.publish(b"stays", "q")
        client.expect_confirmed()
        time.sleep(0.005)

        message = client.get("q")
        assert message is not None
        assert message.body == b"stays"
        assert client.ready_count("q") == 0
