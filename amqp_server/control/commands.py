"""All commands of the control socket."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from amqp_server.control.browse import QUEUES_BROWSE
from amqp_server.control.checkpoint import CHECKPOINT
from amqp_server.control.imports import IMPORT_COMMANDS
from amqp_server.control.offsets import OFFSETS_COMMANDS
from amqp_server.control.queues import QUEUES_STATS
from amqp_server.control.registry import Command
from amqp_server.control.replay import QUEUES_REPLAY
from amqp_server.control.shards import SHARDS_COMMANDS
from amqp_server.control.status import STATUS
from amqp_server.control.vhosts import VHOST_COMMANDS

COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        command.name: command
        for command in (
            CHECKPOINT,
            *IMPORT_COMMANDS,
            *OFFSETS_COMMANDS,
            QUEUES_BROWSE,
            QUEUES_REPLAY,
            QUEUES_STATS,
            *SHARDS_COMMANDS,
            STATUS,
            *VHOST_COMMANDS,
        )
    }
)
"""Commands by name."""
