"""A machine with systemd of its own, in namespaces of this one: units run as they do on a server.

Its file system is this machine's, with an overlay in memory: what is written there is gone with the
machine. Its network has the loopback only. Needs root.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TextIO

import click

from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

_SYSTEMD: Final = Path("/lib/systemd/systemd")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SOURCE: Final = "/srv/source"
PACKAGES: Final = "/srv/packages"
PYTHON_HOME: Final = "/srv/python"
PYTHON_NAME: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
PYTHON: Final = f"{PYTHON_HOME}/bin/{PYTHON_NAME}"
"""Where a machine finds the repository and the Python of this process."""

_TOOLS: Final = (
    *("unshare", "nsenter", "ip", "ss", "systemctl", "journalctl"),
    *("runuser", "useradd", "curl", "openssl"),
)
_PROBE: Final = """
mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mount -t cgroup2 cgroup2 root/mnt
"""

_BOOT: Final = r"""
set -eu
path=$1
shift
root=$1/root
mkdir "$root" "$1/layers"
mount -t tmpfs tmpfs "$1/layers"
mkdir "$1/layers/upper" "$1/layers/work"
mount -t overlay overlay \
    -o "lowerdir=/,upperdir=$1/layers/upper,workdir=$1/layers/work" "$root"

# Services of this machine are not to start in that one.
rm -rf "$root"/etc/systemd/system/*.wants "$root"/run/*
: >"$root/etc/machine-id"

mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
for directory in dev root run tmp; do mount -t tmpfs tmpfs "$root/$directory"; done
chmod 1777 "$root/tmp"
for device in null zero full random urandom tty; do cp -a "/dev/$device" "$root/dev/"; done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
    mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
fi
ip link set lo up
shift
while [ $# -gt 0 ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
    shift 2
done

cd "$root"
mkdir oldroot
pivot_root . oldroot
cd /
umount --lazy /oldroot
rmdir /oldroot
exec env -i container=lxc "PATH=$path" \
    /lib/systemd/systemd --system --unit=basic.target
"""

_NAMESPACES: Final = ("--pid", "--mount", "--uts", "--ipc", "--cgroup")


def what_is_missing() -> str | None:
    """Return why there can be no machine here; None: nothing is missing."""
    if os.geteuid() != 0 or not _SYSTEMD.exists() or not all(map(shutil.which, _TOOLS)):
        return f"needs root, systemd and {', '.join(_TOOLS)}"
    probe = ("unshare", *_NAMESPACES, "--net", "--fork", "sh", "-euc", _PROBE)
    tried = subprocess.run(
        probe, cwd="/", capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    if tried.returncode == 0:
        return None
    return f"needs namespaces, overlays and control groups: {tried.stderr.strip()}"


class SystemdMachine:
    """A machine that has started; `started_machine` makes one.

    Args:
        init: Process id, on this machine, of its systemd.
    """

    def __init__(self, init: int) -> None:
        self._init = init

    def outside(self, path: str) -> Path:
        """Return the path by which this machine finds an absolute path of that one."""
        return Path(f"/proc/{self._init}/root{path}")

    def run(
        self,
        script: str,
        *,
        directory: str = "/",
        is_online: bool = False,
        seconds: float = HANG_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script of bash as root, until its first command that fails.

        Args:
            script: What to run.
            directory: Where to begin, by its path in the machine.
            is_online: Use the network of the machine that runs the test: to install packages.
            seconds: After so many it is ended: a guard against hangs.
        """
        network = () if is_online else ("--net",)
        return subprocess.run(
            (
                *("nsenter", f"--target={self._init}", *_NAMESPACES, *network, "--root", "--wd"),
                *("env", "-i", "HOME=/root", "LANG=C.UTF-8", f"PATH={_PATH}"),
                *("bash", "-euo", "pipefail", "-c", f'cd "{directory}"\n{script}'),
            ),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def output(
        self,
        script: str,
        *,
        directory: str = "/",
        is_online: bool = False,
        seconds: float = HANG_SECONDS,
    ) -> str:
        """Run a script that must not fail; return what it prints."""
        done = self.run(script, directory=directory, is_online=is_online, seconds=seconds)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def started_machine() -> Iterator[SystemdMachine]:
    """Start a machine, and end it with everything that runs in it.

    It finds this repository at `SOURCE`, the packages that this process uses at `PACKAGES`, and its
    Python at `PYTHON`, all to be read only. Homes of this machine are not there.
    """
    shown = {
        REPOSITORY: SOURCE,
        Path(click.__file__).parents[1]: PACKAGES,
        Path(sys.base_prefix): PYTHON_HOME,
    }
    mounts = [word for outside, inside in shown.items() for word in (str(outside), inside)]
    with (
        tempfile.TemporaryDirectory(prefix="machine-") as name,
        _control_groups(Path(name).name) as groups,
        (Path(name) / "said").open("w+") as said,
    ):
        # In its groups first: the namespace of groups then begins there.
        enter = "".join(f'echo $$ >"{group}/cgroup.procs"\n' for group in groups)
        begin = (
            f'{enter}exec unshare {" ".join(_NAMESPACES)} --net --fork --kill-child bash -c "$@"'
        )
        with subprocess.Popen(
            ("bash", "-euc", begin, "begin", _BOOT, "boot", _PATH, name, *mounts),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            text=True,
        ) as launcher:
            try:
                init = _first_child(launcher, said)
                _wait_for_commands(init, launcher, said)
                machine = SystemdMachine(init)
                machine.run("systemctl is-system-running --wait")
                # Python's own library, if it has one: what it was linked to lies in a home.
                machine.output(
                    f"echo {PYTHON_HOME}/lib >/etc/ld.so.conf.d/00-python.conf; ldconfig"
                )
                yield machine
            finally:
                launcher.kill()
                launcher.wait()
                _wait_for_end(groups)


@contextmanager
def _control_groups(name: str) -> Iterator[list[Path]]:
    """Make control groups for a machine; remove them with all that systemd made in them."""
    if (_CGROUPS / "cgroup.controllers").exists():
        groups = [_CGROUPS / name]
    else:
        groups = [_CGROUPS / "systemd" / name, _CGROUPS / "unified" / name]
    with ExitStack() as made:
        for group in groups:
            group.mkdir()
            made.callback(_remove_group, group)
        yield groups


def _remove_group(group: Path) -> None:
    for directory, _, _ in os.walk(group, topdown=False):
        Path(directory).rmdir()


def _first_child(launcher: subprocess.Popen[str], said: TextIO) -> int:
    """Return the process that becomes the machine's systemd."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    for _ in _until_hang():
        _check(launcher, said)
        # The first child is that of unshare: bash has replaced itself.
        if found := children.read_text().split():
            return int(found[0])
    raise AssertionError("no process was started")


def _wait_for_commands(init: int, launcher: subprocess.Popen[str], said: TextIO) -> None:
    """Wait until the machine's systemd can be asked."""
    for _ in _until_hang():
        _check(launcher, said)
        if Path(f"/proc/{init}/comm").read_text() == "systemd\n":
            asked = SystemdMachine(init).run("systemctl show --property=Version")
            if asked.returncode == 0:
                return
    raise AssertionError("systemd does not answer")


def _wait_for_end(groups: list[Path]) -> None:
    """Wait until no process of the machine is left: its groups can be removed then."""
    for _ in _until_hang():
        if all(
            not (Path(directory) / "cgroup.procs").read_text()
            for group in groups
            for directory, _, _ in os.walk(group)
        ):
            return
    raise AssertionError("processes of the machine did not end")


def _check(launcher: subprocess.Popen[str], said: TextIO) -> None:
    if launcher.poll() is not None:
        said.seek(0)
        raise AssertionError(f"the machine did not start: {said.read()}")


def _until_hang() -> Iterator[None]:
    end = time.monotonic() + HANG_SECONDS
    while time.monotonic() < end:
        yield
        time.sleep(0.02)
