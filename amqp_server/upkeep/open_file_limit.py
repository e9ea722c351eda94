"""Raises the limit of open files and divides it between connections and logs.

Sockets, logs, indexes and mappings share one limit. The usual soft limit of 1,024 exists only for
programs that use `select`, so it is raised. The caches of the logs get what connections leave; with
fewer files they open files more often. A connection for which no descriptor is left cannot even be
refused. So the last descriptors below the limit are reserved for connections.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqp_server.base.errors import StartupError
from appendlog.files.descriptors import OPEN_FILES_MAX, SHARED_DESCRIPTORS
from appendlog.files.mappings import MAPPINGS_MAX, SHARED_MAPPINGS
from appendlog.files.open_files import CACHES_FILES_MAX, OPEN_FILES, is_for_want_of_files, share
from appendlog.segments.mapped_indexes import MAPPED_INDEXES_MAX, SHARED_INDEXES

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.base.config import ServerConfig

logger = logging.getLogger("amqp_server.open_files")

OTHERS: Final = 64
"""Files that are neither connections nor logs: listeners, checkpoint, journal, libraries."""
RESERVED: Final = 16
"""Descriptors among these that are reserved to accept connections that are then refused."""
OPEN_FILES_MIN: Final = 128
"""Least limit of open files; below it too little is left for logs and connections."""
HOW_TO_RAISE: Final = "raise it (ulimit -n, or LimitNOFILE= of the systemd unit)"


def claim_open_files(config: ServerConfig) -> ServerConfig:
    """Raise the limit as far as allowed, divide it, and return settings that fit in it.

    Args:
        config: The requested settings.

    Raises:
        StartupError: The limit is below `OPEN_FILES_MIN`.
    """
    limit = _raised_limit()
    if limit is None:
        _set_cache_sizes(CACHES_FILES_MAX)
        return config
    if limit < OPEN_FILES_MIN:
        raise StartupError(
            f"the limit of open files is {limit}, must be at least {OPEN_FILES_MIN}: {HOW_TO_RAISE}"
        )
    wanted = config.connections_max
    left = limit - OTHERS
    caches = min(CACHES_FILES_MAX, max(left // 2, left - wanted))
    connections = min(wanted, left - caches)
    _set_cache_sizes(caches)
    OPEN_FILES.numbers_end = limit - RESERVED
    if connections == wanted and caches == CACHES_FILES_MAX:
        return config
    logger.warning(
        "open files limit %d leaves room for %d connections and %d files of logs, all need %d: %s",
        limit,
        connections,
        caches,
        wanted + CACHES_FILES_MAX + OTHERS,
        HOW_TO_RAISE,
    )
    return replace(config, connections_max=connections)


def close_log_files(storage_path: Path) -> None:
    """Close and unmap what the shared caches hold of a data directory; writes nothing."""
    for cache in (SHARED_DESCRIPTORS, SHARED_MAPPINGS, SHARED_INDEXES):
        cache.evict_below(storage_path)


def refuse_start_without_files(what: object, cause: BaseException | None) -> None:
    """Refuse the start if something failed because no more files can be open.

    Without this a queue that could not be opened would be missing until the next start.

    Args:
        what: Text for the operator: what cannot be opened, and why.
        cause: Error of the operating system; None if there is none.

    Raises:
        StartupError: The cause is the limit of open files.
    """
    if cause is not None and is_for_want_of_files(cause):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise StartupError(f"{what}: the limit of open files is {limit}, {HOW_TO_RAISE}") from cause


def _raised_limit() -> int | None:
    """Return the limit, raised as far as allowed; None if there is no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            # macOS reports a hard limit that it does not grant.
            logger.warning(
                "open files limit not raised soft=%d hard=%d error=%s", soft, hard, error
            )
    return None if soft == resource.RLIM_INFINITY else soft


def _set_cache_sizes(files_max: int) -> None:
    """Set how many files the caches of all logs together may keep open."""
    SHARED_DESCRIPTORS.capacity = share(OPEN_FILES_MAX, files_max)
    SHARED_MAPPINGS.count_max = share(MAPPINGS_MAX, files_max)
    SHARED_INDEXES.capacity = share(MAPPED_INDEXES_MAX, files_max)
