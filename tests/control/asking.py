"""Asks a server over its control socket, for a user of the server or for none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqp_server.control.client import follow
from amqp_server.control.protocol import ControlError, RequestActor

PEER = "192.0.2.7:40000"


class Asking:
    """The control socket of one server.

    Args:
        storage_path: The server's data directory.
        user: User for whom requests are made; empty: none.
    """

    def __init__(self, storage_path: Path, user: str = "") -> None:
        self._storage_path = storage_path
        self._actor = RequestActor(user, PEER) if user else None

    def of(self, user: str) -> Asking:
        """Return the same for another user."""
        return Asking(self._storage_path, user)

    def ask(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - as the command has it
        """Return the result of a command."""
        return self.follow(command, **arguments)[0]

    def follow(self, command: str, **arguments: object) -> tuple[Any, list[dict[str, Any]]]:
        """Return the result of a command, and its progress reports."""
        reports: list[dict[str, Any]] = []
        result = follow(self._storage_path, command, arguments, reports.append, self._actor)
        return result, reports

    def listed(self, command: str, name: str, **arguments: object) -> list[Any]:
        """Return the rows that a command reports under a name."""
        _, reports = self.follow(command, **arguments)
        return [row for report in reports for row in report[name]]

    def refusal(self, command: str, **arguments: object) -> ControlError:
        """Return the error of a command that must be refused."""
        with pytest.raises(ControlError) as refused:
            self.ask(command, **arguments)
        return refused.value

    def refused_text(self, code: int, command: str, **arguments: object) -> str:
        """Return the text of a command that AMQP must refuse with a code."""
        error = self.refusal(command, **arguments)
        assert (error.kind, error.details.get("code")) == ("refused", code), error
        assert error.reason == error.details["text"]
        return error.reason

    def add_user(self, name: str, configure: str, write: str, read: str) -> Asking:
        """Create a user with permissions in `/`, and return its requests."""
        self.ask("users.set", name=name, tags=["management"])
        patterns = {"configure": configure, "write": write, "read": read}
        self.ask("permissions.set", vhost="/", user=name, **patterns)
        return self.of(name)

    def declare(self, name: str, **arguments: object) -> dict[str, Any]:
        """Create a durable queue in `/`."""
        fields: dict[str, object] = {"durable": True, "auto_delete": False, "arguments": arguments}
        made = self.ask("queues.declare", vhost="/", name=name, **fields)
        assert isinstance(made, dict)
        return made

    def declare_exchange(self, name: str, kind: str = "topic", **arguments: object) -> object:
        """Create a durable exchange in `/`."""
        flags = {"durable": True, "auto_delete": False, "internal": False}
        return self.ask(
            "exchanges.declare", vhost="/", name=name, type=kind, **flags, arguments=arguments
        )
