"""Ends this process although threads of it wait in the kernel for a disk that hangs.

The kernel keeps a process, with its sockets, until the last of its threads returns from the disk:
clients would wait as long. So the sockets are shut down first.
"""

from __future__ import annotations

import os
import resource
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_DESCRIPTORS: Final = "/dev/fd"
_DESCRIPTORS_MAX: Final = 1 << 20
_LAST_WORDS_SECONDS_MAX: Final = 0.5


def end_at_once(exit_code: int, last_words: Callable[[], None]) -> None:
    """End this process without another look at its files; returns only to a test that replaces it.

    Args:
        exit_code: Exit code.
        last_words: Called before, in a thread that nobody waits for if it takes too long.
    """
    speaking = threading.Thread(target=last_words, name="last words", daemon=True)
    # Without a thread that is left nothing is said.
    with suppress(RuntimeError):
        speaking.start()
        speaking.join(_LAST_WORDS_SECONDS_MAX)
    shut_sockets_down()
    os._exit(exit_code)


def shut_sockets_down() -> None:
    """Shut down all sockets of this process: peers see that they are closed, ports are free."""
    for descriptor in _descriptors():
        # No call here asks a file: one on a disk that hangs would not answer. And none needs a
        # descriptor more.
        with suppress(OSError):
            found = socket.socket(fileno=descriptor)
            try:
                found.shutdown(socket.SHUT_RDWR)
            finally:
                found.detach()


def _descriptors() -> Iterable[int]:
    try:
        return [int(name) for name in os.listdir(_DESCRIPTORS)]  # noqa: PTH208 - names, not paths
    except OSError:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return range(min(limit, _DESCRIPTORS_MAX) if limit >= 0 else _DESCRIPTORS_MAX)
