"""Sends commands to the broker on its control socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from amqp_server.control.messages import (
    ControlError,
    Request,
    decode_progress,
    decode_reply,
    encode_request,
)
from amqp_server.control.socket_path import socket_address


class BrokerRefused(Exception):  # noqa: N818 - a refusal is an answer
    """The broker has refused a command.

    Attributes:
        kind: Kind of the error.
        reason: Line for people.
        details: Values for programs.
    """

    def __init__(self, kind: str, reason: str, details: Mapping[str, Any]) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.details = dict(details)


class BrokerAway(Exception):  # noqa: N818 - as above
    """The broker does not answer."""


class BrokerClient:
    """Client of the control socket of one broker.

    Args:
        storage_path: Data directory of the broker.
    """

    def __init__(self, storage_path: Path) -> None:
        self._storage_path = storage_path

    async def call(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        actor: Mapping[str, str] | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> Any:  # noqa: ANN401 - what a command returns
        """Send a command and return its result.

        Raises:
            BrokerRefused: The broker refused it.
            BrokerAway: The broker does not answer.
        """
        del actor
        try:
            with socket_address(self._storage_path) as address:
                reader, writer = await asyncio.open_unix_connection(address, limit=1 << 28)
            try:
                writer.write(encode_request(Request(command, dict(arguments or {}))))
                while line := await reader.readline():
                    progress = decode_progress(line)
                    if progress is None:
                        return decode_reply(line)
                    if on_progress is not None:
                        on_progress(progress)
            finally:
                writer.close()
        except ControlError as error:
            raise BrokerRefused(error.kind.value, error.reason, error.details) from error
        except OSError as error:
            raise BrokerAway(str(error)) from error
        raise BrokerAway("the connection was closed")

    async def close(self) -> None:
        """Close all connections."""
