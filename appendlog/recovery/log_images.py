"""Images of small logs: what is in their files, read many at a time, without the interpreter.

A start opens every log. Most are small, and whole: three files, whose octets show all that there is
to know. To read them takes a dozen system calls, which cost several times as
much if the interpreter makes them one by one: at each it gives its lock away and waits for it.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple, TypeAlias

from appendlog.files.bulk_reads import reads_natively
from appendlog.files.filesystem import FileSystem
from appendlog.layout.builds import chosen_build

IMAGES_AT_ONCE: Final = 16
"""Logs that are read in one call. An image has 650 KiB at most; of most logs, a few KiB."""


class LogImage(NamedTuple):
    """Content of the directory of a log with one segment. Nothing in it is checked yet.

    Attributes:
        log_name: Name of the segment file.
        log_bytes: Size of the segment file.
        head: Its first octets: at most 4 KiB, and at least its header.
        passed: Headers of large chunks, one after the other, from the last place that the index
            knows; they lead to `foot`.
        foot_start: Position of `foot`.
        foot: Its last octets, from before the place up to where it is on the disk for certain.
        end: The `end` file; empty if there is none.
        index_bytes: Size of the index file; -1 if there is none.
        index_part: The header of the index file, and its last entries.
    """

    log_name: str
    log_bytes: int
    head: bytes
    passed: bytes
    foot_start: int
    foot: bytes
    end: bytes
    index_bytes: int
    index_part: bytes


_Read: TypeAlias = Callable[
    [list[bytes]], list[tuple[str, int, bytes, bytes, int, bytes, bytes, int, bytes] | int]
]


def _load_compiled() -> _Read | None:
    # Its system calls are Linux'.
    if sys.platform != "linux":
        return None
    read: _Read = import_module("appendlog.recovery._log_images_c").read_images
    return read


_READ, _ = chosen_build(_load_compiled, None)


def read_images(filesystem: FileSystem, directories: Sequence[Path]) -> list[LogImage | None]:
    """Return the images of some logs, in that order.

    None stands for a log that the recovery has to read itself: it is not there, cannot be read, or
    has other files than one segment, its index and `end`. What it reads first of each file is in
    the page cache then. Without a compiled kernel, and where the file system has its own way to
    read, there are no images, and nothing is read.

    Args:
        filesystem: File operations of the logs.
        directories: Directories of the logs, at most `IMAGES_AT_ONCE`.
    """
    if _READ is None or not directories or not reads_natively(filesystem):
        return [None] * len(directories)
    began_seconds = perf_counter()
    read_all = partial(_READ, [os.fsencode(directory) for directory in directories])
    images = [
        None if isinstance(found, int) else LogImage._make(found)
        for found in filesystem.run_natively("pread", str(directories[0]), read_all)
    ]
    octets = [
        len(each.head) + len(each.passed) + len(each.foot) + len(each.end) + len(each.index_part)
        for each in images
        if each
    ]
    filesystem.note_reads(len(octets), sum(octets), perf_counter() - began_seconds)
    return images
