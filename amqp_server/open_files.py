"""How many files the process may have open: as many as the system lets it, and what that is for.

Sockets, logs, indexes and mappings share one limit, and the usual one of 1,024 is a courtesy to
programs that use `select`. A connection that finds no descriptor left could not even be refused.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appendlog.files.descriptors import OPEN_FILES_MAX
from appendlog.files.mappings import MAPPINGS_MAX
from appendlog.segments.mapped_indexes import MAPPED_INDEXES_MAX

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig

logger = logging.getLogger(__name__)

OTHERS: Final = 64
"""Listeners, checkpoint, journal, definitions being written, libraries being loaded."""
STORAGE_FILES_MAX: Final = OPEN_FILES_MAX + MAPPINGS_MAX + MAPPED_INDEXES_MAX + OTHERS
"""What is not left for connections; a mapping holds a descriptor of its own."""


def claim_open_files(config: ServerConfig) -> ServerConfig:
    """Raise the limit as far as allowed, and return settings with connections that fit in it.

    Args:
        config: The settings asked for.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            # macOS tells a hard limit that it does not grant.
            logger.warning("open files limit stays soft=%d hard=%d error=%s", soft, hard, error)
    if soft == resource.RLIM_INFINITY:
        return config
    room = max(soft - STORAGE_FILES_MAX, soft // 16)
    if room >= config.limits.connections_max:
        return config
    logger.warning(
        "open files limit %d leaves room for %d connections: raise it (ulimit -n, LimitNOFILE)",
        soft,
        room,
    )
    return replace(config, limits=replace(config.limits, connections_max=room))
