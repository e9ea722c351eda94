"""Moves the volume, the address and the broker from a machine that dies to another one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pamqp.commands import Basic

from amqp_server.control.client import ControlError, UnreachableError, ask
from tests.amqp_client import PERSISTENT, AmqpClient, ConnectionLostError, connect
from tests.moving.clients import Prober
from tests.moving.machines import Machine, Network
from tests.moving.volume import Volume

PORT: Final = 5672
_LOOK_SECONDS: Final = 0.02
WITNESSED: Final = "witnessed"
"""A queue for the message that a machine must not confirm after it has lost its volume."""


class Death(Enum):
    """What happens to a machine."""

    KILL = "killed"
    """All its processes end; the file system stays whole."""
    POWER_CUT = "power cut"
    """Nobody is told, and what the file system had not written is gone."""
    FREEZE = "frozen"
    """It stands still, loses its volume, and goes on when another one has it."""


@dataclass(frozen=True)
class Move:
    """How long a move took, in seconds.

    Attributes:
        death: What has happened to the first machine.
        detach: From the death until no one has the volume; without `copy`.
        copy: The disk's copy, which stands for a volume that a machine has lost: no part of what
            users wait for.
        mount: Until the second machine has it.
        start: From there to the first confirm.
        outage: From the last confirm before to the first one after; without `copy`.
        has_died_twice: Whether the second machine lost its power in its start.
    """

    death: Death
    detach: float
    copy: float
    mount: float
    start: float
    outage: float
    has_died_twice: bool


class Mover:
    """Knows which machine has the volume, and moves it; as a context manager it ends them all.

    Args:
        network: Of the clients.
        directory: For what the machines log.
        volume: Not mounted yet.
        options: Of the brokers.

    Attributes:
        machine: The one that has the volume.
    """

    def __init__(self, network: Network, directory: Path, volume: Volume, *options: str) -> None:
        self._network = network
        self._directory = directory
        self._volume = volume
        self._options = options
        self._log_bytes = 0
        self._count = 0
        self._machines: list[Machine] = []
        self.machine = self._another()

    def __enter__(self) -> Self:
        """Start the first broker."""
        self._volume.mount(self.machine)
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the machines away."""
        for machine in self._machines:
            machine.end()

    @property
    def storage_path(self) -> Path:
        """Data directory of the broker that runs, for this process."""
        return self.machine.seen(self._volume.path / "data")

    def stop(self) -> None:
        """Stop the broker, which must have had nothing to complain of, and verify its data."""
        code = self.machine.stop_broker()
        assert code == 0, self.machine.logged
        self._expect_no_faults()
        data = str(self._volume.path / "data")
        self.machine.run(
            sys.executable, "-P", "-m", "amqp_server", "verify", "--storage-path", data
        )

    def restart(self) -> None:
        """Kill the broker, and start it where it is."""
        self.machine.kill_all()
        self._start()

    def checkpoint(self) -> None:
        """Return when a checkpoint of the running broker is on its disk.

        Raises:
            ConnectionLostError: There is none, its disk has failed, or it died before it answered.
        """
        machine, path = self.machine, self.storage_path
        asking = Future[None]()
        # A frozen broker does not answer, and its end is not the end of the connection.
        threading.Thread(target=_ask_for_checkpoint, args=(path, asking), daemon=True).start()
        while machine is self.machine:
            with suppress(TimeoutError):
                return asking.result(_LOOK_SECONDS)
        raise ConnectionLostError(f"machine {machine.number} has died")

    def move(
        self,
        death: Death,
        prober: Prober,
        await_clients: Callable[[], None],
        seconds_to_second_death: float | None,
    ) -> Move:
        """Let the machine die, and another one go on.

        Args:
            death: What happens to it.
            prober: Client that notices when the broker is back.
            await_clients: Returns when every client has connected again.
            seconds_to_second_death: When the second machine loses its power, from its start on.
        """
        self._expect_no_faults()
        old, new = self.machine, self._another()
        witness = _Witness(old) if death is Death.FREEZE else None
        began = time.monotonic()
        copied = self._detach(death)
        detached = time.monotonic()
        self._volume.mount(new)
        mounted = time.monotonic()
        self.machine = new
        self._start()
        if seconds_to_second_death is not None:
            time.sleep(seconds_to_second_death)
            self._detach(Death.POWER_CUT)
            self.machine = self._another()
            self._volume.mount(self.machine)
            self._start()
        confirmed = prober.first_after(time.monotonic())
        if witness is not None:
            # Whoever is still connected to the old machine might hear of it.
            await_clients()
            old.thaw()
            witness.expect_no_confirm()
        for machine in self._machines:
            if machine is not self.machine:
                machine.end()
        self._machines = [self.machine]
        return Move(
            death,
            detach=detached - began - copied,
            copy=copied,
            mount=mounted - detached,
            start=confirmed - mounted,
            outage=confirmed - prober.last_before(mounted) - copied,
            has_died_twice=seconds_to_second_death is not None,
        )

    def _another(self) -> Machine:
        self._count += 1
        machine = Machine(self._network, self._count, self._directory)
        self._machines.append(machine)
        return machine

    def _detach(self, death: Death) -> float:
        """Let the machine that has the volume die; return the seconds that a copy took."""
        machine, volume = self.machine, self._volume
        if death is Death.KILL:
            machine.kill_all()
            volume.unmount(machine)
            return 0.0
        if death is Death.POWER_CUT:
            machine.unplug()
        else:
            machine.freeze()
        volume.cut(machine)
        if death is Death.POWER_CUT:
            machine.kill_all()
        began = time.monotonic()
        volume.change_over()
        return time.monotonic() - began

    def _start(self) -> None:
        self._log_bytes = len(self.machine.logged)
        self.machine.take_service_address()
        self.machine.start_broker(self._volume.path / "data", *self._options)

    def _expect_no_faults(self) -> None:
        """Check that the broker that runs has logged no error: its disk is good."""
        logged = self.machine.logged[self._log_bytes :]
        assert "level=error" not in logged, logged
        assert "Traceback (most" not in logged, logged


def _ask_for_checkpoint(storage_path: Path, asking: Future[None]) -> None:
    try:
        ask(storage_path, "checkpoint")
    except (UnreachableError, ControlError, OSError) as error:
        asking.set_exception(ConnectionLostError(str(error)))
    else:
        asking.set_result(None)


class _Witness:
    """A client of a machine, by the machine's own address, that stays connected to it.

    Args:
        machine: Which.
    """

    def __init__(self, machine: Machine) -> None:
        self._client: AmqpClient = connect((machine.address, PORT))
        self._client.open_channel(confirms=True)

    def expect_no_confirm(self) -> None:
        """Publish, and check that the machine, which has lost its disk, does not confirm it."""
        client = self._client
        method = Basic.Publish(0, "", WITNESSED)
        with client:
            try:
                client.send_raw(client.publish_octets(method, b"too late", PERSISTENT))
                _, answer = client.receive()
            except ConnectionLostError:
                return
            assert not isinstance(answer, Basic.Ack), "a machine without its disk has confirmed"
