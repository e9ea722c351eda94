"""Asks the running server: the control socket with what the standard library has.

`amqp_server.control.client` does the same with more checks, but its imports take longer than
a probe may.
"""

from __future__ import annotations

import json
import os
import socket
import time

from cli.rabbitmq_tools.failures import SOFTWARE, UNAVAILABLE, ToolFailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

ANSWER_SECONDS_MAX = 60.0
"""Seconds that an answer may take unless `-t` says otherwise."""
PATH_BYTES_MAX = 107
"""Longest address of a Unix socket in bytes on Linux."""


class RefusedError(Exception):
    """The server refuses a command.

    Attributes:
        kind: Its word for the error, as docs/control.md lists them.
        reason: Its line for people.
        details: Values from the reason, by name.
    """

    def __init__(self, kind: str, reason: str, details: dict[str, Any]) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.details = details

    def failure(self) -> ToolFailedError:
        """Return the failure of a verb for which this refusal means nothing special."""
        return ToolFailedError(
            UNAVAILABLE if self.kind == "invalid_argument" else SOFTWARE, self.reason
        )


class Server:
    """The running server; connects at the first question, and keeps the connection.

    Args:
        storage_path: Its data directory.
        node: Name of the node, for errors.
        seconds_max: Seconds that an answer may take.
    """

    def __init__(self, storage_path: str, node: str, seconds_max: float) -> None:
        self.storage_path = storage_path
        self._node = node
        self._seconds_max = seconds_max
        self._connection: socket.socket | None = None
        self._lines: Any = None

    def ask(self, command: str, **arguments: Any) -> Any:  # noqa: ANN401 - JSON values
        """Return the result of a command.

        Raises:
            RefusedError: The server refuses it.
            ToolFailedError: The server cannot be asked.
        """
        parts = self.parts(command, arguments)
        while True:
            try:
                next(parts)
            except StopIteration as end:
                return end.value

    def close(self) -> None:
        """Close the connection; the next question opens another one."""
        if self._connection is not None:
            self._lines.close()
            self._connection.close()
            self._connection = None

    def parts(
        self, command: str, arguments: dict[str, Any]
    ) -> Generator[dict[str, Any], None, Any]:
        """Yield the progress reports of a command; the value of the generator is its result.

        Raises:
            RefusedError: The server refuses it.
            ToolFailedError: The server cannot be asked.
        """
        request = {"version": 1, "command": command, "arguments": arguments}
        try:
            self._connect()
            assert self._connection is not None
            self._connection.sendall(json.dumps(request).encode() + b"\n")
            while True:
                line = self._lines.readline()
                if not line.endswith(b"\n"):
                    raise ToolFailedError(UNAVAILABLE, self._unreachable("it ended"))
                answer = json.loads(line)
                if "progress" not in answer:
                    break
                yield answer["progress"]
        except OSError as error:
            self.close()
            raise ToolFailedError(UNAVAILABLE, self._unreachable(_explain(error))) from error
        if "ok" in answer:
            return answer["ok"]
        raise RefusedError(
            str(answer.get("error")), str(answer.get("reason")), answer.get("details") or {}
        )

    def follow(
        self, command: str, arguments: dict[str, Any], seconds: float
    ) -> Generator[dict[str, Any]]:
        """Yield the reports of a command that goes on until its client leaves, for a time.

        Args:
            command: Name of the command.
            arguments: Its arguments.
            seconds: When to leave.

        Raises:
            RefusedError: The server refuses it.
            ToolFailedError: The server cannot be asked, or has ended.
        """
        until = time.monotonic() + seconds
        reports = self.parts(command, arguments)
        try:
            while True:
                try:
                    report = next(reports)
                except ToolFailedError:
                    if time.monotonic() < until:
                        raise
                    return
                yield report
                left = until - time.monotonic()
                if left <= 0:
                    return
                assert self._connection is not None, "the first report has come"
                # A report without content comes every 15 s at most.
                self._connection.settimeout(min(left, self._seconds_max))
        finally:
            self.close()

    def _connect(self) -> None:
        if self._connection is not None:
            return
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._seconds_max)
        self._connection, self._lines = connection, connection.makefile("rb")
        path = os.path.join(self.storage_path, "control.sock")  # noqa: PTH118 - see the package
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            directory = os.open(self.storage_path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                connection.connect(f"/proc/self/fd/{directory}/control.sock")
            finally:
                os.close(directory)
        else:
            connection.connect(path)

    def _unreachable(self, why: str) -> str:
        return (
            f"unable to perform an operation on node '{self._node}': no answer from a server on "
            f"the data directory {self.storage_path}: {why}"
        )


def _explain(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return error.strerror or str(error)
