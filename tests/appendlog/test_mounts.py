"""The type of the file system of a path, from the kernel's list of mounts."""

import sys
from pathlib import Path

import pytest

from appendlog.files.mounts import file_system_type

MOUNTS = r"""
23 22 0:21 / /proc rw - proc proc rw
24 22 0:30 / {top}/a\040b rw,relatime shared:5 master:2 - fuse.sshfs host:/ rw
25 22 0:31 / {top}/disk rw - xfs /dev/vdb rw
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
26 25 0:32 /sub {top}/disk rw - btrfs /dev/vdc rw
27 22 0:33 / {top}/dis rw - nfs4 server:/export rw
29 30 0:35 / {top}/old rw - fuse none rw
28 30 0:34 / {top}/old/below rw - xfs /dev/vdd rw
30 22 0:36 / {top}/old rw - tmpfs none rw
""".strip()


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("", "ext4"),
        ("a b", "fuse.sshfs"),
        ("a b/c", "fuse.sshfs"),
        ("disk/x", "btrfs"),
        ("dis", "nfs4"),
        ("disks", "ext4"),
        ("old/below", "fuse"),
        ("link", "fuse.sshfs"),
    ],
)
def test_the_mount_that_hides_the_others_counts(tmp_path: Path, place: str, kind: str) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True) if place != "link" else None
    (tmp_path / "a b" / "c").mkdir(parents=True, exist_ok=True)
    (tmp_path / "link").symlink_to("a b/c")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(top=tmp_path.resolve()))
    assert file_system_type(tmp_path / place, mounts) == kind


def test_nothing_is_known_where_the_kernel_has_no_list(tmp_path: Path) -> None:
    assert file_system_type(tmp_path, tmp_path / "missing") == ""
    with pytest.raises(FileNotFoundError):
        file_system_type(tmp_path / "missing")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such list")
def test_the_list_of_this_machine_can_be_read() -> None:
    assert file_system_type(Path("/proc/self")) == "proc"
