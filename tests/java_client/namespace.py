"""A network of its own: the tests connect to port 5672, which may be taken on this machine."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Final, Self

_ADDRESS: Final = "10.9.8.7/24"
"""Of an interface that is not the loopback, which one of the tests connects to."""
_BEGIN: Final = f"""
ip link set lo up
ip link add real type bridge && ip addr add {_ADDRESS} dev real && ip link set real up
echo ready
exec cat
"""


class NetworkNamespace:
    """A network namespace of Linux with a loopback; as a context manager it ends with the block.

    Needs root.
    """

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", _BEGIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        """Return when its loopback is up."""
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n", "no network namespace could be made"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End what holds it."""
        self._holder.communicate()

    def command(self, *words: str) -> list[str]:
        """Return a command that runs another one in this network."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--", *words]
