"""A disk that hangs on request: a file system of the tests' own (FUSE), or a frozen ext4."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes.util import find_library
from pathlib import Path
from typing import Protocol

import pytest

from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.management.conftest import StartManagementServer, start_management_server

__all__ = ["StartManagementServer", "start_management_server"]

_IMAGE_BYTES = 64 << 20
_TOOLS = ("mkfs.ext4", "losetup", "mount", "umount", "fsfreeze")


class Disk(Protocol):
    """A disk.

    Attributes:
        path: Where it is mounted.
    """

    path: Path

    def hang(self, operations: str) -> None:
        """Let operations hang that begin from now on: system calls, or `all`."""

    def go_on(self) -> None:
        """Carry out what hangs, and let nothing hang any more."""


class HangingDisk:
    """A disk that a FUSE file system of the tests makes.

    Args:
        path: Where it is mounted.
        orders: File that says what hangs.
    """

    def __init__(self, path: Path, orders: Path) -> None:
        self.path = path
        self._orders = orders
        self.go_on()

    def hang(self, operations: str) -> None:
        """Let operations hang that begin from now on."""
        partial = self._orders.with_suffix(".new")
        partial.write_text(operations)
        partial.replace(self._orders)

    def go_on(self) -> None:
        """Carry out what hangs."""
        self.hang("")


class FrozenDisk:
    """A disk with ext4 that the kernel freezes: whatever changes it waits.

    Args:
        path: Where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def hang(self, operations: str) -> None:
        """Freeze; everything that is written hangs."""
        _run("fsfreeze", "--freeze", str(self.path))

    def go_on(self) -> None:
        """Thaw."""
        _run("fsfreeze", "--unfreeze", str(self.path))


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=HANG_SECONDS)
    return done.stdout.strip()


def _has_fuse() -> bool:
    return os.access("/dev/fuse", os.R_OK | os.W_OK) and any(map(find_library, ("fuse", "fuse3")))


@pytest.fixture
def hanging_disk(tmp_path: Path, start_server: StartServer) -> Iterator[HangingDisk]:
    """Mount a disk that hangs on request; it goes on before servers are killed."""
    if not _has_fuse():
        pytest.skip("needs /dev/fuse and libfuse")
    path, backing, orders = (tmp_path / name for name in ("mounted", "backing", "orders"))
    path.mkdir()
    backing.mkdir()
    disk = HangingDisk(path, orders)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.disk.hanging_files", backing, path, orders],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None, "a pipe"
    try:
        line = process.stdout.readline()
        assert line == "mounted\n", line + process.stdout.read()
        yield disk
    finally:
        disk.go_on()
        with suppress(subprocess.CalledProcessError):
            _run("umount", "--lazy", str(path))
        # A server that is still there would keep it.
        process.kill()
        process.wait(HANG_SECONDS)
        process.stdout.close()


@contextmanager
def _mounted(image: Path, path: Path) -> Iterator[None]:
    with image.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    _run("mkfs.ext4", "-q", str(image))
    path.mkdir()
    try:
        _run("mount", "-o", "loop", str(image), str(path))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"needs a loop device: {error.stderr.strip()}")
    try:
        yield
    finally:
        _run("umount", "--lazy", str(path))


@pytest.fixture
def frozen_disk(tmp_path: Path, start_server: StartServer) -> Iterator[FrozenDisk]:
    """Mount an ext4 that can be frozen; it thaws before servers are killed."""
    if os.getuid() != 0 or not all(map(shutil.which, _TOOLS)):
        pytest.skip(f"needs root and {', '.join(_TOOLS)}")
    with _mounted(tmp_path / "image", tmp_path / "mounted"):
        disk = FrozenDisk(tmp_path / "mounted")
        try:
            yield disk
        finally:
            with suppress(subprocess.CalledProcessError):
                disk.go_on()
