"""Machines of one host: namespaces of Linux with a network of their own, which a test can kill.

All of it lives in the namespaces of this process, which `python -m tests.moving` makes first: when
the process ends, whatever way, its machines, its network and its mounts are gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

NAMESPACES: Final = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
SERVICE_ADDRESS: Final = "10.77.0.100"
"""Where clients find the broker, whichever machine it runs on."""
_CLIENTS_ADDRESS: Final = "10.77.0.1"
_TOOLS: Final = ("unshare", "nsenter", "ip", "losetup", "mount", "umount", "mkfs.ext4")
_PROBE: Final = """
ip link add probe type bridge && ip link add here type veth peer name there && losetup --find
"""


def what_is_missing() -> str | None:
    """Return why there can be no machines here; None: nothing is missing."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if os.getuid() != 0 or missing:
        return f"needs root and {', '.join(_TOOLS)}"
    probe = ["unshare", *NAMESPACES, "sh", "-c", _PROBE]
    tried = subprocess.run(probe, capture_output=True, text=True, timeout=HANG_SECONDS)
    if tried.returncode == 0:
        return None
    return f"needs namespaces, veth, a bridge and loop devices: {tried.stderr.strip()}"


def run(*command: str) -> None:
    """Run a command.

    Raises:
        RuntimeError: It failed; the text has what it wrote.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


class Network:
    """The switch between the clients, which are in this process, and the machines."""

    def __init__(self) -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "address", "add", f"{_CLIENTS_ADDRESS}/16", "dev", "switch")
        run("ip", "link", "set", "switch", "up")

    def learn(self) -> None:
        """Forget which machine had which address, as a switch does when one is announced."""
        run("ip", "neighbour", "flush", "dev", "switch")


class Machine:
    """A machine with a cable to the network.

    One that has died does not come back: its kernel would still send what its programs had left
    to it. `end` takes it away.

    Args:
        network: That its cable goes to.
        number: 1, 2, ...: for its name and its address.
        directory: For what its brokers log.

    Attributes:
        number: As given.
        address: Its own, beside that of the service.
        log: What its brokers have written to standard error.
    """

    def __init__(self, network: Network, number: int, directory: Path) -> None:
        self.number = number
        self.address = f"10.77.{1 + number // 250}.{1 + number % 250}"
        self.log = directory / f"machine-{number}.log"
        self._network = network
        self._cable = f"cable{number}"
        self._broker: subprocess.Popen[bytes] | None = None
        # Its first process, which stays when all others are killed: it holds the namespaces.
        self._holder = subprocess.Popen(
            ["unshare", *NAMESPACES, "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n", "no namespaces could be made"
        pid = str(self._holder.pid)
        run("ip", "link", "add", self._cable, "type", "veth", "peer", "eth0", "netns", pid)
        run("ip", "link", "set", self._cable, "master", "switch", "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.address}/16", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def end(self) -> None:
        """Take it away, with all that runs on it and all that it has mounted."""
        self.kill_all()
        run("ip", "link", "delete", self._cable)
        self._holder.communicate(timeout=HANG_SECONDS)

    def command(self, *words: str) -> list[str]:
        """Return a command that runs another one on this machine."""
        of = f"/proc/{self._holder.pid}/ns"
        inside = [f"--net={of}/net", f"--mount={of}/mnt", f"--pid={of}/pid_for_children"]
        return ["nsenter", *inside, "--", *words]

    def run(self, *words: str) -> None:
        """Run a command on this machine, and return when it is done.

        Raises:
            RuntimeError: It failed; the text has what it wrote.
        """
        run(*self.command(*words))

    def seen(self, path: Path) -> Path:
        """Return the path by which this process sees a path of the machine, with its mounts."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    # The network

    def take_service_address(self) -> None:
        """Let clients of the service come here."""
        self.run("ip", "address", "replace", f"{SERVICE_ADDRESS}/16", "dev", "eth0")
        self._network.learn()

    def unplug(self) -> None:
        """Pull the cable: nothing comes, nothing goes, and nobody is told."""
        run("ip", "link", "set", self._cable, "down")

    # What runs here

    def start_broker(self, storage_path: Path, *options: str) -> None:
        """Start a broker as its users do, with its default ports; do not wait for it."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AMQP_SERVER_")}
        command = [sys.executable, "-P", "-m", "amqp_server", "--storage-path", str(storage_path)]
        with self.log.open("ab") as log:
            self._broker = subprocess.Popen(
                self.command(*command, "--host", "0.0.0.0", "--guest-from-anywhere", *options),
                env={**inherited, "PYTHONPATH": str(REPOSITORY)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def stop_broker(self) -> int:
        """Stop the broker with SIGTERM, and return its exit code."""
        self._signal("TERM")
        assert self._broker is not None, "none was started"
        return self._broker.wait(HANG_SECONDS)

    def kill_all(self) -> None:
        """Kill every process at once; those of the kernel go on."""
        self._signal("KILL")
        if self._broker is not None:
            # nsenter, which ends as its broker did. It must not be killed: nobody would take note
            # of the broker's end, and the namespace would stay.
            self._broker.send_signal(signal.SIGCONT)
            self._broker.wait(HANG_SECONDS)
            self._broker = None

    def freeze(self) -> None:
        """Let every process stand still, as a machine that hangs or is paused."""
        self._signal("STOP")

    def thaw(self) -> None:
        """Let them go on as if nothing had happened."""
        self._signal("CONT")
        if self._broker is not None:
            # nsenter stops with what it has started.
            self._broker.send_signal(signal.SIGCONT)

    @property
    def logged(self) -> str:
        """What its brokers have logged so far."""
        return self.log.read_text(errors="backslashreplace") if self.log.exists() else ""

    def _signal(self, name: str) -> None:
        # There may be none: then kill fails.
        self.run("sh", "-c", f"kill -s {name} -- -1 2>/dev/null || true")
