"""Converts errors of groups and logs to errors of the control socket."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.protocol import ControlError, ErrorKind
from appendlog import LogError
from offsets import (
    GroupInUseError,
    GroupOffsetOutOfRangeError,
    InvalidGroupNameError,
    OffsetsError,
    RegressingCommitError,
    TooManyGroupsError,
    UnknownGroupError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.control.offset_logs import GroupLog

_KINDS: Final[tuple[tuple[type[OffsetsError], ErrorKind, tuple[str, ...]], ...]] = (
    (InvalidGroupNameError, ErrorKind.INVALID_ARGUMENT, ()),
    (UnknownGroupError, ErrorKind.NOT_FOUND, ("group",)),
    (TooManyGroupsError, ErrorKind.LIMIT_REACHED, ("group", "groups_max")),
    (GroupInUseError, ErrorKind.IN_USE, ("group", "members")),
    (RegressingCommitError, ErrorKind.REGRESSING_COMMIT, ("group", "current", "attempted")),
    (
        GroupOffsetOutOfRangeError,
        ErrorKind.OUT_OF_RANGE,
        ("group", "offset", "log_start_offset", "log_end_offset"),
    ),
)
"""Error type, its kind in a reply, and the attributes that go into the details."""


@contextmanager
def refusals(log: GroupLog | None = None) -> Iterator[None]:
    """Convert the errors of groups and logs that the block raises.

    Args:
        log: Log of the command; if it is a shard, the reply contains its number.

    Raises:
        ControlError: The block raised such an error.
    """
    try:
        yield
    except OffsetsError as error:
        for type_, kind, names in _KINDS:
            if isinstance(error, type_):
                details = {name: getattr(error, name) for name in names}
                raise _refusal(kind, str(error), log, details) from error
        raise _refusal(ErrorKind.FAILED, str(error), log, {}) from error
    except LogError as error:
        raise _refusal(ErrorKind.FAILED, str(error), log, {}) from error


def _refusal(
    kind: ErrorKind, reason: str, log: GroupLog | None, details: dict[str, Any]
) -> ControlError:
    if log is None or log.shard is None:
        return ControlError(kind, reason, details)
    details = {**details, "shard": log.shard}
    return ControlError(kind, f"shard {log.shard}, queue '{log.queue.name}': {reason}", details)
