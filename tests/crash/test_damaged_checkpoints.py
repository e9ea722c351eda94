"""With unreadable checkpoints messages return marked; none is hidden or lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from amqp_server.recovery.start_report import Outcome
from cli.data_directory import EXIT_CODES
from cli.main import main
from tests.conftest import StartServer
from tests.crash.messages import channel_to, drain, flags, publish_confirmed
from tests.servers import RunningServer

pytestmark = pytest.mark.crash


def flip_the_base(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)


def damage_both(offsets: Path) -> None:
    for path in offsets.glob("*.log"):
        path.write_bytes(path.read_bytes().replace(b"AQCP", b"AQCQ"))


def cut_both_short(offsets: Path) -> None:
    for path in offsets.glob("*.log"):
        path.write_bytes(b"")


def prepared(start_server: StartServer, *, cleanly: bool) -> RunningServer:
    """Return a stopped server with two generations, of whose ten messages five are settled."""
    server = start_server()
    server.terminate()
    server.restart()
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(10))
        for _ in range(5):
            assert client.get("q") is not None
    server.terminate()
    if not cleanly:
        server.restart()
        server.kill()
    assert len(list((server.storage_path / "offsets").glob("*.log"))) == 2
    server.may_fail = True
    return server


def accept_loss(server: RunningServer) -> None:
    """Give up what is gone: the start alone is refused."""
    arguments = ["recover", "--accept-loss", "--storage-path", str(server.storage_path)]
    assert main(arguments) == EXIT_CODES[Outcome.DAMAGED]


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("spoil", [damage_both, cut_both_short, shutil.rmtree])
def test_without_a_checkpoint_all_messages_return_marked_with_one_log_line(
    start_server: StartServer, spoil: Callable[[Path], None], cleanly: bool
) -> None:
    server = prepared(start_server, cleanly=cleanly)
    spoil(server.storage_path / "offsets")
    if spoil is shutil.rmtree:
        accept_loss(server)
    server.restart()
    reported = [line for line in server.messages if "no checkpoint can be read" in line]
    # Where nothing is left, the command that accepts the loss reports it.
    assert len(reported) == (spoil is not shutil.rmtree)
    with channel_to(server) as client:
        assert drain(client, "q") == flags(range(10), redelivered=True)
    server.terminate()
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == []
    assert [line for line in server.messages if "no checkpoint can be read" in line] == reported


def test_the_previous_checkpoint_is_used_with_one_log_line(start_server: StartServer) -> None:
    server = prepared(start_server, cleanly=False)
    flip_the_base(max((server.storage_path / "offsets").glob("*.log")))
    server.restart()
    assert len([line for line in server.messages if "checkpoint damaged" in line]) == 1
    with channel_to(server) as client:
        assert drain(client, "q") == flags(range(5, 10), redelivered=True)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_lost_log_hides_no_message_that_is_published_later(
    start_server: StartServer, damaged: bool
) -> None:
    """The floor of the old log lay above the end of the new one, in both generations."""
    server = prepared(start_server, cleanly=True)
    shutil.rmtree(server.storage_path / "logs")
    accept_loss(server)
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == []
        publish_confirmed(client, "q", range(20, 23))
        server.kill()
    if damaged:
        flip_the_base(max((server.storage_path / "offsets").glob("*.log")))
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == flags(range(20, 23), redelivered=True)
