"""Sets and clears policies: by our control socket, or by `rabbitmqctl` of the broker under test."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Protocol

import pytest

from amqp_server.control.client import ControlError, ask
from tests.conformance.administration import CONTROL_VARIABLE
from tests.conformance.broker import Broker


class PolicyRefusedError(Exception):
    """The broker refused a policy; the text is what is wrong with it."""


class PolicyTool(Protocol):
    """Changes the policies of the virtual host `/`."""

    def set(
        self,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        """Set a policy; raises PolicyRefusedError."""

    def clear(self, name: str, *, operator: bool = False) -> None:
        """Clear a policy."""


class OurTool:
    """Asks a server of ours."""

    def __init__(self, storage_path: Path) -> None:
        self._storage_path = storage_path

    def set(
        self,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        try:
            ask(
                self._storage_path,
                f"{_family(operator)}.set",
                vhost="/",
                name=name,
                pattern=pattern,
                definition=definition,
                priority=priority,
                apply_to=apply_to,
            )
        except ControlError as error:
            raise PolicyRefusedError(error.reason) from error

    def clear(self, name: str, *, operator: bool = False) -> None:
        ask(self._storage_path, f"{_family(operator)}.clear", vhost="/", name=name)


class RabbitTool:
    """Runs the `rabbitmqctl` that the environment names."""

    def set(
        self,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        command = "set_operator_policy" if operator else "set_policy"
        options = ["--priority", str(priority), "--apply-to", apply_to]
        self._call(command, *options, name, pattern, json.dumps(definition))

    def clear(self, name: str, *, operator: bool = False) -> None:
        self._call("clear_operator_policy" if operator else "clear_policy", name)

    def _call(self, *arguments: str) -> None:
        command = [os.environ[CONTROL_VARIABLE], "--quiet", *arguments]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode:
            fault = ended.stderr.partition("Validation failed\n")[2]
            raise PolicyRefusedError(fault.strip() or ended.stderr)


def policy_tool(broker: Broker) -> PolicyTool:
    """Return the tool of the broker under test; skips the test if it has none."""
    if broker.storage_path is not None:
        return OurTool(broker.storage_path)
    if CONTROL_VARIABLE not in os.environ:
        pytest.skip(f"{CONTROL_VARIABLE} is not set: nobody can set a policy of this broker")
    return RabbitTool()


def _family(operator: bool) -> str:
    return "operator_policies" if operator else "policies"
