"""Where the control socket is, also where its path is too long for a socket's address."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOCKET_NAME: Final = "control.sock"
PATH_BYTES_MAX: Final = 107 if sys.platform == "linux" else 103
"""Longest address of a Unix socket: `sun_path`, less the zero octet at its end."""


@contextmanager
def socket_address(storage_path: Path) -> Iterator[str]:
    """Lend an address of the control socket of a data directory, short enough to bind or connect.

    A directory with a long path is reached through a descriptor, by way of `/proc`.

    Args:
        storage_path: The data directory.

    Raises:
        OSError: The path is too long and there is no other way to it, or it cannot be opened.
    """
    path = storage_path / SOCKET_NAME
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield str(path)
        return
    if not Path("/proc/self/fd").is_dir():
        raise OSError(f"its path is longer than {PATH_BYTES_MAX} bytes")
    directory = os.open(storage_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET_NAME}"
    finally:
        os.close(directory)
