"""The path of the control socket, even where it is too long for a socket address."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOCKET_NAME: Final = "control.sock"
PATH_BYTES_MAX: Final = 107 if sys.platform == "linux" else 103
"""Longest address of a Unix socket in bytes: `sun_path` without its final zero octet."""


@contextmanager
def socket_address(storage_path: Path) -> Iterator[str]:
    """Yield an address of a data directory's control socket that is short enough to use.

    A directory with a long path is reached through an open descriptor, by way of `/proc`.

    Args:
        storage_path: The data directory.

    Raises:
        OSError: The path is too long and there is no `/proc`, or the directory cannot be opened.
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
