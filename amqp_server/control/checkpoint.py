"""The command `checkpoint`: writes what is settled to the disk now."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command
from offsets import OffsetsError

if TYPE_CHECKING:
    from amqp_server.upkeep.checkpointer import Checkpointer


async def checkpoint(checkpointer: Checkpointer) -> dict[str, object]:
    """Write a checkpoint; return when it is on the disk.

    Raises:
        ControlError: The disk refused the write.
    """
    try:
        report = await checkpointer.write_now()
    except OffsetsError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error
    return {
        "queues": report.queues,
        "bytes": report.written_bytes,
        "generation": report.generation,
        "seconds": round(report.seconds, 6),
    }


def checkpoint_commands(checkpointer: Checkpointer) -> tuple[Command, ...]:
    """Return the command `checkpoint` of a server with this checkpointer."""
    return (Command("checkpoint", partial(checkpoint, checkpointer)),)
