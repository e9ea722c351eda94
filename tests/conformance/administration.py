"""Users and permissions of the broker under test: by our commands, or by `rabbitmqctl`."""

import json
import os
import subprocess
from pathlib import Path
from typing import Final, Protocol

from amqp_server.access.passwords import PasswordHash
from amqp_server.control.client import ask

CONTROL_VARIABLE: Final = "AMQP_RABBITMQCTL"
"""Environment variable that names a `rabbitmqctl` for the broker of AMQP_URL."""


class Administration(Protocol):
    """What the tests change in a broker."""

    def add_user(self, name: str, password: str) -> None:
        """Add a user without permissions."""

    def delete_user(self, name: str) -> None:
        """Delete a user."""

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        """Set what a user may do."""

    def clear_permissions(self, user: str, vhost: str) -> None:
        """Remove what a user may do."""

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> None:
        """Set with which routing keys a user may work."""

    def add_vhost(self, name: str) -> None:
        """Add a virtual host."""

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host."""

    def set_vhost_limits(self, vhost: str, limits: dict[str, int]) -> None:
        """Replace the limits of a virtual host."""

    def set_user_limits(self, user: str, limits: dict[str, int]) -> None:
        """Set limits of a user; others stay."""

    def trace(self, vhost: str, *, is_on: bool) -> None:
        """Turn the firehose of a virtual host on or off."""


class OurAdministration:
    """Asks the control socket of a server of ours.

    Args:
        storage_path: Data directory of the server.
    """

    def __init__(self, storage_path: Path) -> None:
        self._storage_path = storage_path

    def add_user(self, name: str, password: str) -> None:
        """Add a user without permissions."""
        stored = PasswordHash.quick(password.encode())
        self._ask(
            "users.add",
            name=name,
            password_hash=stored.text,
            hashing_algorithm=stored.algorithm,
            tags=[],
        )

    def delete_user(self, name: str) -> None:
        """Delete a user."""
        self._ask("users.delete", name=name)

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        """Set what a user may do."""
        patterns = {"configure": configure, "write": write, "read": read}
        self._ask("permissions.set", user=user, vhost=vhost, **patterns)

    def clear_permissions(self, user: str, vhost: str) -> None:
        """Remove what a user may do."""
        self._ask("permissions.clear", user=user, vhost=vhost)

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> None:
        """Set with which routing keys a user may work."""
        where = {"user": user, "vhost": vhost, "exchange": exchange}
        self._ask("topic_permissions.set", **where, write=write, read=read)

    def add_vhost(self, name: str) -> None:
        """Add a virtual host."""
        self._ask("vhosts.add", name=name)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host."""
        self._ask("vhosts.delete", name=name)

    def set_vhost_limits(self, vhost: str, limits: dict[str, int]) -> None:
        """Replace the limits of a virtual host."""
        self._ask("limits.set", kind="vhost", name=vhost, limits=limits, replace=True)

    def set_user_limits(self, user: str, limits: dict[str, int]) -> None:
        """Set limits of a user; others stay."""
        self._ask("limits.set", kind="user", name=user, limits=limits, replace=False)

    def trace(self, vhost: str, *, is_on: bool) -> None:
        """Turn the firehose of a virtual host on or off."""
        self._ask("vhosts.trace", name=vhost, is_on=is_on)

    def _ask(self, command: str, **arguments: object) -> None:
        ask(self._storage_path, command, **arguments)


class RabbitmqAdministration:
    """Runs the `rabbitmqctl` that the environment names."""

    def add_user(self, name: str, password: str) -> None:
        """Add a user without permissions."""
        self._run("add_user", name, password)

    def delete_user(self, name: str) -> None:
        """Delete a user."""
        self._run("delete_user", name)

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        """Set what a user may do."""
        self._run("set_permissions", "-p", vhost, user, configure, write, read)

    def clear_permissions(self, user: str, vhost: str) -> None:
        """Remove what a user may do."""
        self._run("clear_permissions", "-p", vhost, user)

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> None:
        """Set with which routing keys a user may work."""
        self._run("set_topic_permissions", "-p", vhost, user, exchange, write, read)

    def add_vhost(self, name: str) -> None:
        """Add a virtual host; `guest` may do everything there."""
        self._run("add_vhost", name)
        self.set_permissions("guest", name, ".*", ".*", ".*")

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host."""
        self._run("delete_vhost", name)

    def set_vhost_limits(self, vhost: str, limits: dict[str, int]) -> None:
        """Replace the limits of a virtual host."""
        self._run("set_vhost_limits", "-p", vhost, json.dumps(limits))

    def set_user_limits(self, user: str, limits: dict[str, int]) -> None:
        """Set limits of a user; others stay."""
        self._run("set_user_limits", user, json.dumps(limits))

    def trace(self, vhost: str, *, is_on: bool) -> None:
        """Turn the firehose of a virtual host on or off."""
        self._run("trace_on" if is_on else "trace_off", "-p", vhost)

    def _run(self, *arguments: str) -> None:
        command = [os.environ[CONTROL_VARIABLE], "--quiet", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
