"""A volume that one machine at a time has: an ext4 in a file, behind a loop device."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from pathlib import Path
from typing import Final

from tests.limits import HANG_SECONDS
from tests.moving.machines import Machine, run

_BYTES_MIN: Final = 2 << 30
# EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of the kernel's fs/ext4/ext4.h: from now on
# nothing is written any more, neither the journal nor pages that wait; programs get EIO.
_SHUTDOWN: Final = 0x8004587D
_WITHOUT_FLUSH: Final = struct.pack("I", 2)
_LOOK_SECONDS: Final = 0.002


class Volume:
    """A disk that moves between machines.

    Args:
        directory: For its image, and the mount point.
        bytes_needed: That it must have room for; the image takes no room before it is written.

    Attributes:
        path: Where a machine that has it sees it.
    """

    def __init__(self, directory: Path, bytes_needed: int) -> None:
        self.path = directory / "volume"
        self.path.mkdir()
        self._directory = directory
        self._number = 0
        with self._image.open("wb") as file:
            file.truncate(_BYTES_MIN + 2 * bytes_needed)
        # All is made now: no thread of the kernel writes beside the tests.
        made_at_once = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
        run("mkfs.ext4", "-q", "-F", "-i", "65536", "-E", made_at_once, str(self._image))

    @property
    def _image(self) -> Path:
        return self._directory / f"image-{self._number}"

    def mount(self, machine: Machine) -> None:
        """Attach it to a machine, which replays its journal."""
        machine.run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self, machine: Machine) -> None:
        """Detach it from a machine, when the last process that had a file open has ended."""
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            try:
                return machine.run("umount", str(self.path))
            except RuntimeError as error:
                if "busy" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_SECONDS)

    def cut(self, machine: Machine) -> None:
        """Cut the power of the disk: what the file system has not written yet never gets there.

        Programs of the machine get EIO from now on. Call `change_over` before another machine
        mounts it.
        """
        directory = os.open(machine.seen(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(directory, _SHUTDOWN, _WITHOUT_FLUSH)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        finally:
            os.close(directory)

    def change_over(self) -> None:
        """Go on with a copy of the disk as it is now, the journal with it.

        A machine that still has the old one mounted cannot change the copy.
        """
        old = self._image
        self._number += 1
        run("cp", "--sparse=auto", str(old), str(self._image))
        # The copy must not be under way while the next machine uses the disk below.
        copied = os.open(self._image, os.O_RDONLY)
        try:
            os.fsync(copied)
        finally:
            os.close(copied)
        # Its machine has it open.
        old.unlink()
