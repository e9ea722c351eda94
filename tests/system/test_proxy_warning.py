"""The log warns that clients of a proxy on this machine count as local clients."""

from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.servers import RunningServer

LINE = "guest logged in from this machine"


def lines_after_two_logins(server: RunningServer) -> list[str]:
    """Return what the log of a server says of logins from this machine, up to its end."""
    for _ in range(2):
        with connect(server.address) as client:
            client.open_channel()
    assert server.terminate() == 0
    return [line for line in server.messages if LINE in line]


def test_the_log_warns_of_proxies_once_a_start(start_server: StartServer) -> None:
    server = start_server()
    (line,) = lines_after_two_logins(server)
    assert "level=warning" in line
    assert "peer='127.0.0.1' note='the clients of a proxy on this machine" in line
    assert len(lines_after_two_logins(server.start())) == 2


def test_the_log_does_not_warn_where_guest_may_come_from_anywhere(
    start_server: StartServer,
) -> None:
    assert not lines_after_two_logins(start_server("--guest-from-anywhere"))
