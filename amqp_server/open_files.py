"""How many files the process may have open: as many as the system lets it, and what that is for.

Sockets, logs, indexes and mappings share one limit, and the usual one of 1,024 is a courtesy to
programs that use `select`. The caches of the logs take what is left for them: with less they open
files more often. A connection that finds no descriptor left could not even be refused, so the last
numbers below the limit are never the storage's.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqp_server.errors import StartupError
from appendlog.files.descriptors import OPEN_FILES_MAX, SHARED_DESCRIPTORS
from appendlog.files.mappings import MAPPINGS_MAX, SHARED_MAPPINGS
from appendlog.files.open_files import CACHES_FILES_MAX, OPEN_FILES, is_for_want_of_files, share
from appendlog.segments.mapped_indexes import MAPPED_INDEXES_MAX, SHARED_INDEXES

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig

logger = logging.getLogger(__name__)

OTHERS: Final = 64
"""Listeners, checkpoint, journal, definitions being written, libraries being loaded."""
RESERVED: Final = 16
"""Of these, what is kept for connections that are accepted to be refused."""
OPEN_FILES_MIN: Final = 128
"""With less, what is open at once would leave too little for logs and connections."""
HOW_TO_RAISE: Final = "raise it (ulimit -n, or LimitNOFILE= of the systemd unit)"


def claim_open_files(config: ServerConfig) -> ServerConfig:
    """Raise the limit as far as allowed, share it out, and return settings that fit in it.

    Args:
        config: The settings asked for.

    Raises:
        StartupError: The limit is too small to work with.
    """
    limit = _raised_limit()
    if limit is None:
        _share_out(CACHES_FILES_MAX)
        return config
    if limit < OPEN_FILES_MIN:
        raise StartupError(
            f"the limit of open files is {limit}, at least {OPEN_FILES_MIN} are needed: "
            f"{HOW_TO_RAISE}"
        )
    wanted = config.limits.connections_max
    left = limit - OTHERS
    caches = min(CACHES_FILES_MAX, max(left // 2, left - wanted))
    connections = min(wanted, left - caches)
    _share_out(caches)
    OPEN_FILES.numbers_end = limit - RESERVED
    if connections == wanted and caches == CACHES_FILES_MAX:
        return config
    logger.warning(
        "open files limit %d leaves room for %d connections and %d files of logs, %d would be room "
        "for all: %s",
        *(limit, connections, caches, wanted + CACHES_FILES_MAX + OTHERS, HOW_TO_RAISE),
    )
    return replace(config, limits=replace(config.limits, connections_max=connections))


def refuse_start_without_files(what: object, cause: BaseException | None) -> None:
    """Refuse a start that misses something because no more files can be open.

    A queue that is left out for that would be missing until the next start.

    Args:
        what: What cannot be opened, and why, for people.
        cause: What the operating system said.

    Raises:
        StartupError: It is for that.
    """
    if cause is not None and is_for_want_of_files(cause):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise StartupError(f"{what}: the limit of open files is {limit}, {HOW_TO_RAISE}") from cause


def _raised_limit() -> int | None:
    """Return the limit, raised as far as allowed; None where there is none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            # macOS tells a hard limit that it does not grant.
            logger.warning("open files limit stays soft=%d hard=%d error=%s", soft, hard, error)
    return None if soft == resource.RLIM_INFINITY else soft


def _share_out(files_max: int) -> None:
    """Let the caches of the logs keep so many files open, all together."""
    SHARED_DESCRIPTORS.capacity = share(OPEN_FILES_MAX, files_max)
    SHARED_MAPPINGS.count_max = share(MAPPINGS_MAX, files_max)
    SHARED_INDEXES.capacity = share(MAPPED_INDEXES_MAX, files_max)
