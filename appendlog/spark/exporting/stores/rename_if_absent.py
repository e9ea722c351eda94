"""Renames a file if no other file has the name, in one step, also without hard links."""

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

_AT_FDCWD: Final = -100
_NO_REPLACE: Final = 1


def rename_if_absent(source: Path, target: Path) -> None:
    """Rename `source`, unless `target` is taken.

    Raises:
        FileExistsError: `target` is taken.
        OSError: The rename failed; EOPNOTSUPP if the system or the file system cannot do it.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise _cannot(target)
    if rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _NO_REPLACE) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise _cannot(target)
    raise OSError(code, os.strerror(code), str(target))


def _cannot(target: Path) -> OSError:
    text = "this file system cannot create a file only if there is none, which a commit needs"
    return OSError(errno.EOPNOTSUPP, text, str(target))
