"""The script that attaches a cloud's volume, with programs that play the cloud."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

SCRIPT: Final = REPOSITORY / "deploy" / "volume" / "attach-volume"
VOLUME: Final = "vol-0123456789abcdef0"
HERE: Final = "i-here"

PROGRAM: Final = """#!/bin/bash
echo "${0##*/} $*" >>"$CLOUD/calls"
"""
AWS: Final = """
case "$*" in
*describe-volumes*) cat "$CLOUD/volume" ;;
*describe-instances*) cat "$CLOUD/instance" ;;
*attach-volume*--device*)
    [[ ! -e $CLOUD/refuses ]] || exit 255
    touch "$AMQP_DEVICES/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"
    ;;
esac
"""
CURL: Final = f"""
case "$*" in
*api/token*) [[ -e $CLOUD/is-here ]] && echo token ;;
*region*) echo eu-central-1 ;;
*instance-id*) echo {HERE} ;;
esac
"""
BLKID: Final = """
[[ -e $CLOUD/kind ]] && cat "$CLOUD/kind"
"""
MOUNTPOINT: Final = """
[[ -e $CLOUD/mounted ]]
"""
FINDMNT: Final = """
cat "$CLOUD/mounted"
"""


class Cloud:
    """One volume, and what the programs say of it.

    Args:
        directory: Directory of the test.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._devices = directory / "devices"
        self._disk = directory / "nvme1n1"
        programs = directory / "programs"
        for each in (self._devices, programs):
            each.mkdir()
        texts = {"aws": AWS, "curl": CURL, "blkid": BLKID, "mountpoint": MOUNTPOINT}
        texts |= {"findmnt": FINDMNT, "mount": ""}
        for name, text in texts.items():
            (programs / name).write_text(PROGRAM + text)
            (programs / name).chmod(0o755)
        self.set("volume", "False\tNone\n")
        self.set("is-here", "")
        self.set("kind", "ext4\n")

    def set(self, name: str, text: str) -> None:
        """Change something; see the programs."""
        (self._directory / name).write_text(text)

    def unset(self, name: str) -> None:
        """Let something not be so."""
        (self._directory / name).unlink()

    @property
    def device(self) -> Path:
        """Return the path of the volume's device."""
        return self._devices / "nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"

    def has_device(self) -> None:
        """Let the volume be attached here."""
        self.set("volume", f"False\t{HERE}\n")
        self._disk.touch()
        self.device.symlink_to(self._disk)

    def attach(self) -> tuple[int, str]:
        """Run the script; return its exit code, and what it has to say."""
        environment = {
            "PATH": f"{self._directory / 'programs'}:/usr/bin:/bin",
            "CLOUD": str(self._directory),
            "AMQP_VOLUME": VOLUME,
            "AMQP_DIRECTORY": "/var/lib/amqp-server",
            "AMQP_DEVICES": str(self._devices),
            "AMQP_ATTACH_SECONDS": "1",
        }
        done = subprocess.run(
            [str(SCRIPT)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        return done.returncode, done.stderr

    @property
    def changes(self) -> list[str]:
        """Return what was changed: at the volume, or on this machine."""
        calls = self._directory / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        found = []
        for line in lines:
            words = line.split()
            if words[:1] == ["mount"] or (words[0] == "aws" and words[2].endswith("ach-volume")):
                found.append(words[0] if words[0] == "mount" else words[2])
        return found


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    return Cloud(tmp_path)


def test_a_free_volume_is_attached_and_mounted(cloud: Cloud) -> None:
    assert cloud.attach() == (0, f"attach-volume: {VOLUME} is mounted at /var/lib/amqp-server\n")
    assert cloud.changes == ["attach-volume", "mount"]


def test_a_volume_that_is_attached_here_is_only_mounted(cloud: Cloud) -> None:
    cloud.has_device()
    assert cloud.attach()[0] == 0
    assert cloud.changes == ["mount"]


def test_nothing_is_done_where_it_is_mounted(cloud: Cloud) -> None:
    cloud.has_device()
    cloud.set("mounted", f"/dev/sda2\n{cloud.device.resolve()}\n")
    assert cloud.attach() == (0, f"attach-volume: {VOLUME} is mounted at /var/lib/amqp-server\n")
    assert cloud.changes == []


@pytest.mark.parametrize("is_here", [True, False])
def test_another_file_system_at_the_directory_is_not_taken_for_the_volume(
    cloud: Cloud, is_here: bool
) -> None:
    """A partition of the image; or the volume itself, taken away by force while it was mounted."""
    if is_here:
        cloud.has_device()
    cloud.set("mounted", "/dev/sda2\n")
    code, text = cloud.attach()
    assert code == 1
    assert "is a mount of /dev/sda2, and not of vol-" in text
    assert cloud.changes == []


@pytest.mark.parametrize("life", ["stopped", "terminated"])
def test_a_volume_is_taken_from_an_instance_that_is_off(cloud: Cloud, life: str) -> None:
    cloud.set("volume", "False\ti-other\n")
    cloud.set("instance", f"{life}\n")
    assert cloud.attach()[0] == 0
    assert cloud.changes == ["detach-volume", "attach-volume", "mount"]


@pytest.mark.parametrize("life", ["running", "pending", "stopping", "shutting-down", "None", ""])
def test_no_volume_is_taken_from_an_instance_that_may_run(cloud: Cloud, life: str) -> None:
    cloud.set("volume", "False\ti-other\n")
    cloud.set("instance", f"{life}\n")
    code, text = cloud.attach()
    assert code == 1
    assert "attached to i-other" in text
    assert cloud.changes == []


def test_a_volume_that_several_instances_may_have_is_refused(cloud: Cloud) -> None:
    cloud.set("volume", "True\tNone\n")
    code, text = cloud.attach()
    assert code == 1
    assert "several instances" in text
    assert cloud.changes == []


def test_a_volume_that_another_instance_takes_meanwhile_is_not_mounted(cloud: Cloud) -> None:
    cloud.set("refuses", "")
    code, text = cloud.attach()
    assert code == 1
    assert "faster" in text
    assert cloud.changes == ["attach-volume"]


def test_a_volume_without_a_file_system_gets_none(cloud: Cloud) -> None:
    cloud.unset("kind")
    code, text = cloud.attach()
    assert code == 1
    assert "mkfs.ext4" in text
    assert cloud.changes == ["attach-volume"]


def test_a_device_that_does_not_appear_is_not_waited_for_for_ever(cloud: Cloud) -> None:
    cloud.set("volume", f"False\t{HERE}\n")
    code, text = cloud.attach()
    assert code == 1
    assert "did not appear in 1 s" in text


def test_another_machine_than_one_of_the_cloud_is_told_so(cloud: Cloud) -> None:
    cloud.unset("is-here")
    code, text = cloud.attach()
    assert code == 1
    assert "no instance of EC2" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit_with_the_volume(tmp_path: Path) -> None:
    unit = tmp_path / "amqp-server.service"
    text = (REPOSITORY / "deploy" / "amqp-server.service").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("User=", "Group="))]
    program = shutil.which("true")
    unit.write_text("\n".join(lines).replace("/opt/amqp-server/bin/amqp-server", str(program)))
    (tmp_path / "amqp-server.service.d").mkdir()
    volume = (REPOSITORY / "deploy" / "volume" / "volume.conf").read_text()
    (tmp_path / "amqp-server.service.d" / "volume.conf").write_text(
        volume.replace("/usr/local/sbin/attach-volume", str(SCRIPT))
    )
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    complaints = [line for line in ended.stderr.splitlines() if "amqp-server" in line]
    assert (ended.returncode, complaints) == (0, [])
