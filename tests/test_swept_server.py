"""The server that tests share is empty at the beginning of each."""

from pathlib import Path

import pytest
from pamqp.commands import Exchange

from amqp_server.control.client import ask
from tests.amqp_client import connect
from tests.swept_server import ServerKeeper


def test_the_shared_server_is_emptied_between_tests_and_keeps_running(tmp_path: Path) -> None:
    keeper = ServerKeeper(tmp_path)
    try:
        server = keeper.lend()
        ask(server.storage_path, "vhosts.add", name="second")
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q")
            client.call(Exchange.Declare(exchange="x", exchange_type="fanout"), Exchange.DeclareOk)
            keeper.take_back()
        assert keeper.lend() is server
        assert [vhost["name"] for vhost in ask(server.storage_path, "vhosts.list")] == ["/"]
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q", durable=False)
            client.send(Exchange.Declare(exchange="x", passive=True))
            client.expect_channel_close(404)
    finally:
        keeper.end()


def test_a_server_that_was_stopped_or_restarted_is_not_shared_again(tmp_path: Path) -> None:
    keeper = ServerKeeper(tmp_path)
    try:
        killed = keeper.lend()
        killed.kill()
        keeper.take_back()
        restarted = keeper.lend()
        assert restarted is not killed
        restarted.kill()
        restarted.restart()
        keeper.take_back()
        assert not restarted.is_running
        assert keeper.lend() is not restarted
    finally:
        keeper.end()


def test_an_error_in_the_log_fails_the_test_that_caused_it(tmp_path: Path) -> None:
    keeper = ServerKeeper(tmp_path)
    try:
        server = keeper.lend()
        server.messages.append("level=error made up\n")
        with pytest.raises(AssertionError, match="made up"):
            keeper.take_back()
        assert keeper.lend() is not server
    finally:
        keeper.end()
