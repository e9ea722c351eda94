"""The data directory: who owns it, who may read it, on which file system it lies, and the room."""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from amqp_server.base.config import ServerConfig
from cli.display import rough_size, shown
from cli.doctor.finding import Finding, error, ok, warning
from metadata.data_format import FORMAT_NAME

DIRECTORY: Final = "directory"
FILE_SYSTEM: Final = "file system"
ROOM: Final = "disk space"
ENTRIES_MAX: Final = 20_000
"""Files whose owners are looked at."""
LOST_AND_FOUND: Final = "lost+found"
"""Root's directory at the top of a file system of its own."""
FREE_INODES_MIN: Final = 10_000
_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset({"9p", "afs", "ceph", "cifs", "fuse.sshfs", "nfs", "nfs4", "smb3"})
_MEMORY: Final = frozenset({"ramfs", "tmpfs"})
_LAYERS: Final = frozenset({"aufs", "overlay"})
_NO_BARRIER: Final = frozenset({"barrier=0", "nobarrier"})


class Mount(NamedTuple):
    """A mounted file system.

    Attributes:
        place: Directory where it is mounted.
        kind: Its type, such as `ext4`.
        options: Options of the mount and of the file system.
    """

    place: str
    kind: str
    options: frozenset[str]


def existing(path: Path) -> Path:
    """Return a directory, or the nearest one above it that exists and that this user can see."""
    path = path.absolute()
    while not _is_seen(path) and path != path.parent:
        path = path.parent
    return path


def _is_seen(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        return False


def check_directory(storage_path: Path) -> Iterator[Finding]:
    """Yield whether this user can have the data directory, and others cannot read it."""
    place = existing(storage_path)
    here = shown(str(storage_path.absolute()))
    if not place.is_dir():
        yield error(DIRECTORY, f"{shown(str(place))} is no directory", "choose another one")
        return
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        yield error(
            DIRECTORY,
            f"user {os.geteuid()} may not write to {shown(str(place))}",
            "chown it to the user of the server, or run this as that user (sudo -u ...)",
        )
        return
    if place != storage_path.absolute():
        yield ok(DIRECTORY, f"{here} does not exist: a server creates it")
        return
    status = place.stat()
    others = sorted(path.name for path in place.iterdir() if path.name != LOST_AND_FOUND)
    if others and not (place / FORMAT_NAME).exists():
        yield warning(
            DIRECTORY,
            f"{here} has other files, such as {shown(others[0])}, and no data of a server",
            "look whether it is the right one: a server would put its files beside them",
        )
        return
    foreign = _foreign_file(place, os.geteuid())
    if status.st_uid != os.geteuid():
        yield warning(
            DIRECTORY,
            f"{here} belongs to user {status.st_uid}, and this is user {os.geteuid()}",
            "run server and tools as its owner: files of another user would stop the next start",
        )
    elif foreign is not None:
        yield error(
            DIRECTORY,
            f"{shown(str(foreign))} belongs to another user than {here}",
            f"chown -R {os.geteuid()} {here}",
        )
    elif stat.S_IMODE(status.st_mode) & 0o077:
        yield warning(
            DIRECTORY,
            f"{here} has mode {stat.S_IMODE(status.st_mode):04o}: others may look into it",
            f"chmod 700 {here}",
        )
    else:
        yield ok(DIRECTORY, f"{here} belongs to this user alone")


def check_file_system(storage_path: Path, mounts: Path = _MOUNTS) -> Iterator[Finding]:
    """Yield whether the file system keeps what it has synced.

    Args:
        storage_path: The data directory; need not exist.
        mounts: The kernel's list of mounts.
    """
    mount = _mount_of(existing(storage_path).resolve(), mounts)
    if mount is None:
        return
    text = f"{mount.kind}, mounted at {shown(mount.place)}"
    if "ro" in mount.options:
        yield error(FILE_SYSTEM, f"{text}, is read-only", "mount it for writing")
    elif mount.kind in _MEMORY:
        yield warning(
            FILE_SYSTEM,
            f"{text}, is memory: nothing on it outlives the machine",
            "use a directory on a disk, or --ephemeral if that is what you want",
        )
    elif mount.kind in _LAYERS:
        yield warning(
            FILE_SYSTEM,
            f"{text}, is the layer of a container: it goes when the container goes",
            "mount a volume for the data directory",
        )
    elif mount.kind in _NETWORK or mount.kind.startswith("fuse."):
        yield warning(
            FILE_SYSTEM,
            f"{text}, lies on a network or in another program: each sync waits for it, and whether "
            "it keeps locks and synced data after a crash is its own matter",
            "use a local disk or a block device of the network (docs/two-machines.md)",
        )
    elif mount.options & _NO_BARRIER:
        yield warning(
            FILE_SYSTEM,
            f"{text}, is mounted without barriers: a power cut can take what was synced",
            "mount it with barriers, unless the disk's cache has a battery",
        )
    else:
        yield ok(FILE_SYSTEM, text)


def check_room(config: ServerConfig) -> Iterator[Finding]:
    """Yield whether there is room for segments, and whether publishers would be blocked."""
    disk = os.statvfs(existing(config.storage_path))
    free = disk.f_bavail * disk.f_frsize
    limit = config.disk_free_limit_bytes
    text = f"{rough_size(free)} free; publishers are blocked below {rough_size(limit)}"
    if free < limit:
        yield error(
            ROOM, f"{text} (--disk-free-limit)", "make room, or use another disk: no message enters"
        )
    elif free < limit + 4 * config.segment_bytes:
        yield warning(
            ROOM, f"{text} (--disk-free-limit)", "make room: `amqp-server size` computes how much"
        )
    else:
        yield ok(ROOM, text)
    # 0 of 0: a file system that makes them as it needs them.
    if disk.f_files and disk.f_favail < FREE_INODES_MIN:
        yield warning(
            ROOM,
            f"only {disk.f_favail} inodes are free: a queue takes about six files",
            "remove small files, or use a file system with more of them",
        )


def _foreign_file(directory: Path, user: int) -> Path | None:
    """Return a file of another user in the directory; looks at `ENTRIES_MAX` of them."""
    for path in islice(directory.rglob("*"), ENTRIES_MAX):
        try:
            if path.name != LOST_AND_FOUND and path.lstat().st_uid != user:
                return path
        except FileNotFoundError:
            continue
    return None


def _mount_of(place: Path, mounts: Path) -> Mount | None:
    """Return the mount that a directory lies in; None if the system does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    found = None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) < 6 or len(rest) < 3:
            continue
        where = _unescaped(fields[4])
        # The last of several on one directory hides the others.
        if place.is_relative_to(where) and (found is None or len(where) >= len(found.place)):
            options = frozenset(fields[5].split(",")) | frozenset(rest[2].split(","))
            found = Mount(where, rest[0], options)
    return found


def _unescaped(text: str) -> str:
    """Return a path of the kernel's list, where blanks are octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
