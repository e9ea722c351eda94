"""A server whose free memory and disk space a test sets."""

from __future__ import annotations

from amqp_server.base.config import Limits
from amqp_server.upkeep.alarms import Reading
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

GIB = 1024**3
FINE = Reading(memory_bytes=0, disk_free_bytes=100 * GIB)
LOW_MEMORY = FINE._replace(memory_bytes=100 * GIB)
LOW_DISK = FINE._replace(disk_free_bytes=0)
LOW_BOTH = Reading(memory_bytes=100 * GIB, disk_free_bytes=0)
CAN_BE_BLOCKED = {"connection.blocked": True, "authentication_failure_close": True}
LIMITS = Limits(alarm_check_seconds=0.01, parked_bytes_per_connection_max=64 * 1024)
MIB = 1024 * 1024


class SetSensor:
    """Sees what it is set to."""

    def __init__(self) -> None:
        self.reading = FINE

    def read(self) -> Reading:
        """Return what was set."""
        return self.reading


class Watched:
    """A server with the sensor that it looks with."""

    def __init__(self, server: ThreadedServer, sensor: SetSensor) -> None:
        self.server = server
        self.address = server.address
        self._sensor = sensor

    def see(self, reading: Reading) -> None:
        """Set what is seen, and return when the alarms are as that asks."""
        self._sensor.reading = reading
        self.server.wait_until(lambda: self.server.server.alarms.last == reading)

    def connect(self) -> AmqpClient:
        """Open a connection with the capability connection.blocked."""
        return connect(self.address, capabilities=CAN_BE_BLOCKED)

    def wait_for_pause(self) -> None:
        """Return when some connection is not read for want of room."""
        self.server.wait_until(
            lambda: any("parked" in each._pauses for each in self.server.connections)
        )

    def ready_count(self, queue: str) -> int:
        """Ask on another connection, which does not publish."""
        with self.connect() as witness:
            witness.open_channel()
            return witness.ready_count(queue)


def take_all(client: AmqpClient, queue: str = "q") -> list[bytes]:
    """Take every message of a queue and return the bodies."""
    return [message.body for message in iter(lambda: client.get(queue), None)]
