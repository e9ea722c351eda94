"""The wheel of heartbeats serves connections every half interval and drops silent ones."""

import weakref

import pytest

from amqp_server.connections.heartbeats import TICK_SECONDS, WHEEL_SLOTS, HeartbeatWheel
from tests.faults.inline_loop import InlineLoop


class Connection:
    """Writes down the second of each call, half seconds included."""

    def __init__(self, heartbeat_seconds: int, *, is_silent: bool = False) -> None:
        self.heartbeat_seconds = heartbeat_seconds
        self.is_silent = is_silent
        self.now = 0.0
        self.beats: list[float] = []
        self.abandoned: list[tuple[float, str]] = []

    def beat(self) -> None:
        self.beats.append(self.now)

    def take_silence(self) -> bool:
        return self.is_silent

    def abandon(self, reason: str) -> None:
        self.abandoned.append((self.now, reason))


def pass_seconds(wheel: HeartbeatWheel, seconds: float, *connections: Connection) -> None:
    for _ in range(round(seconds / TICK_SECONDS)):
        for connection in connections:
            connection.now += TICK_SECONDS
        wheel.tick()


@pytest.mark.parametrize(
    "heartbeat_seconds",
    [1, 2, 3, 10, 60, WHEEL_SLOTS - 1, WHEEL_SLOTS, WHEEL_SLOTS + 1, 2 * WHEEL_SLOTS, 580, 65_535],
)
def test_the_wheel_beats_every_half_interval(heartbeat_seconds: int) -> None:
    wheel, connection = HeartbeatWheel(), Connection(heartbeat_seconds)
    pass_seconds(wheel, 5)
    wheel.add(connection)
    half = heartbeat_seconds / 2

    pass_seconds(wheel, 3 * half, connection)

    assert connection.beats == [half, 2 * half, 3 * half]
    assert connection.abandoned == []


def test_connections_of_all_intervals_share_the_wheel() -> None:
    wheel = HeartbeatWheel()
    connections = [Connection(seconds) for seconds in range(1, 300)]
    for connection in connections:
        wheel.add(connection)

    pass_seconds(wheel, 600, *connections)

    for connection in connections:
        half = connection.heartbeat_seconds / 2
        assert connection.beats == [half * count for count in range(1, int(600 / half) + 1)]


@pytest.mark.parametrize(
    ("heartbeat_seconds", "dropped_after", "beats"),
    [(1, 2, [0.5, 1, 1.5]), (2, 4, [1, 2, 3]), (3, 6, [1.5, 3, 4.5]), (10, 20, [5, 10, 15])],
)
def test_a_peer_that_is_silent_for_two_intervals_is_dropped_once(
    heartbeat_seconds: int, dropped_after: float, beats: list[float]
) -> None:
    wheel, connection = HeartbeatWheel(), Connection(heartbeat_seconds, is_silent=True)
    wheel.add(connection)

    pass_seconds(wheel, 100, connection)

    text = f"missed heartbeats, timeout: {heartbeat_seconds}s"
    assert connection.abandoned == [(dropped_after, text)]
    assert connection.beats == beats


def test_one_octet_in_time_restarts_the_count() -> None:
    wheel, connection = HeartbeatWheel(), Connection(2, is_silent=True)
    wheel.add(connection)
    pass_seconds(wheel, 3, connection)
    connection.is_silent = False
    pass_seconds(wheel, 1, connection)
    connection.is_silent = True

    pass_seconds(wheel, 3, connection)
    assert connection.abandoned == []
    pass_seconds(wheel, 1, connection)
    assert len(connection.abandoned) == 1


def test_a_removed_connection_gets_no_more_beats() -> None:
    wheel, connection = HeartbeatWheel(), Connection(2, is_silent=True)
    wheel.add(connection)
    pass_seconds(wheel, 1, connection)
    wheel.remove(connection)
    wheel.remove(connection)

    pass_seconds(wheel, 2 * WHEEL_SLOTS, connection)

    assert (connection.beats, connection.abandoned) == ([1], [])


@pytest.mark.parametrize("heartbeat_seconds", [1, 60, 65_535])
def test_the_wheel_keeps_nothing_of_a_removed_connection(heartbeat_seconds: int) -> None:
    wheel, connection = HeartbeatWheel(), Connection(heartbeat_seconds)
    wheel.add(connection)
    pass_seconds(wheel, 1 + heartbeat_seconds % 7, connection)
    removed = weakref.ref(connection)

    wheel.remove(connection)
    wheel.remove(connection)
    del connection

    assert removed() is None


def test_a_server_that_stood_still_disconnects_no_client() -> None:
    """Nothing can arrive between ticks that are made up for at once."""
    loop = InlineLoop()
    wheel, connection = HeartbeatWheel(), Connection(1, is_silent=True)
    wheel.add(connection)
    turning = loop.create_task(wheel.turn())
    loop.settle()
    for _ in range(3):
        loop.pass_time(60)
        # A timer that is due is no work yet: the loop has to look.
        loop.call_soon(lambda: None)
        loop.settle()
    assert len(connection.beats) == 3
    assert connection.abandoned == []
    turning.cancel()
    loop.settle()
    loop.close()
