"""What the kernel says about the file system that a directory is on."""

import re
from pathlib import Path
from typing import Final, NamedTuple

_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class _Mount(NamedTuple):
    identifier: str
    point: Path
    kind: str


def file_system_type(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system of a path, such as `ext4` or `fuse.sshfs`.

    Args:
        path: Path of a file or directory that exists.
        mounts: File with the mounts of this process; proc(5) describes it.

    Returns:
        An empty string if the system does not say it.

    Raises:
        OSError: The path cannot be followed.
    """
    place = path.resolve(strict=True)
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    below: dict[str, list[_Mount]] = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        identifier, parent, _, _, escaped = before.split()[:5]
        point = Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), escaped))
        if place.is_relative_to(point):
            below.setdefault(parent, []).append(_Mount(identifier, point, after.split()[0]))
    listed = {mount.identifier for mounts in below.values() for mount in mounts}
    roots = [parent for parent in below if parent not in listed]
    found = ""
    # As the kernel goes along a path: the first mount on the way hides what else is below it.
    here = below.get(roots[0]) if roots else None
    while here:
        mount = min(here, key=lambda each: len(each.point.parts))
        found = mount.kind
        here = below.pop(mount.identifier, None)
    return found
