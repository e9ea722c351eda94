"""Each check of `amqp-server doctor`, where the machine is not as it should be."""

import errno
import os
import socket
import time
from collections.abc import Iterable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from amqp_server.base.config import ServerConfig
from cli.doctor.access import check_access, check_user
from cli.doctor.certificates import check_named_files
from cli.doctor.clock import check_clock
from cli.doctor.directory import check_directory, check_file_system, check_room
from cli.doctor.disk_syncs import SYNCS_MAX, check_disk_syncs
from cli.doctor.finding import Finding, State
from cli.doctor.memory import check_memory
from cli.doctor.ports import check_ports, holder_of
from cli.doctor.processor import check_processor
from cli.doctor.versions import check_data_format, check_program
from cli.unit_costs import BROKER_BYTES
from tests.tls.certificates import Authority

NOBODY = 65_534
MIB = 1024 * 1024
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def states(found: Iterable[Finding]) -> list[State]:
    return [each.state for each in found]


def only(found: Iterable[Finding]) -> Finding:
    (one,) = found
    return one


def config(**changes: Any) -> ServerConfig:  # noqa: ANN401 - each has its own
    return ServerConfig(**changes)


# The directory


def test_a_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").touch()

    found = only(check_directory(tmp_path / "data"))
    assert (found.state, found.text) == (State.ERROR, f"{tmp_path}/data is no directory")


def test_a_directory_that_others_can_enter_is_a_warning(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    assert states(check_directory(data)) == [State.OK]

    data.chmod(0o750)
    found = only(check_directory(data))
    assert (found.state, found.advice) == (State.WARNING, f"chmod 700 {data}")


@as_root
def test_a_directory_of_other_things_is_a_warning_and_nobody_is_told_to_take_it_over(
    tmp_path: Path,
) -> None:
    data = tmp_path / "etc"
    data.mkdir(mode=0o700)
    (data / "passwd").touch()
    os.chown(data / "passwd", NOBODY, NOBODY)

    found = only(check_directory(data))
    assert found.state is State.WARNING
    assert found.text == f"{data} has other files, such as passwd, and no data of a server"
    assert "chown" not in found.advice


@as_root
def test_a_file_of_another_user_is_an_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "logs").mkdir(parents=True)
    data.chmod(0o700)
    (data / "FORMAT").touch()
    (data / "logs" / "one").touch()
    (data / "lost+found").mkdir()
    os.chown(data / "lost+found", NOBODY, NOBODY)
    assert states(check_directory(data)) == [State.OK]
    os.chown(data / "logs" / "one", NOBODY, NOBODY)

    found = only(check_directory(data))
    assert found.state is State.ERROR
    assert found.text == f"{data}/logs/one belongs to another user than {data}"


@as_root
def test_another_user_s_directory_is_none_to_write_to(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, NOBODY, NOBODY)
    found = only(check_directory(data))
    assert (found.state, f"belongs to user {NOBODY}" in found.text) == (State.WARNING, True)

    os.chown(data, 0, 0)
    os.seteuid(NOBODY)
    try:
        found = only(check_directory(data))
    finally:
        os.seteuid(0)
    assert found.state is State.ERROR
    assert found.text.startswith(f"user {NOBODY} may not write to ")


LINE = "36 25 8:1 / {place} rw,relatime shared:1 - {kind} /dev/sda1 {options}\n"
ROOT = LINE.format(place="/", kind="ext4", options="rw")


@pytest.mark.parametrize(
    ("kind", "options", "state", "word"),
    [
        ("xfs", "rw", State.OK, "xfs, mounted at"),
        ("tmpfs", "rw", State.WARNING, "memory"),
        ("overlay", "rw,lowerdir=/a", State.WARNING, "layer of a container"),
        ("nfs4", "rw,vers=4.2", State.WARNING, "network"),
        ("fuse.gcsfuse", "rw", State.WARNING, "another program"),
        ("ext4", "rw,barrier=0", State.WARNING, "without barriers"),
        ("ext4", "ro", State.ERROR, "read-only"),
    ],
)
def test_a_file_system_that_does_not_keep_what_it_syncs_is_named(
    tmp_path: Path, kind: str, options: str, state: State, word: str
) -> None:
    place = tmp_path / "with blank"
    place.mkdir()
    mounts = tmp_path / "mountinfo"
    escaped = str(place).replace(" ", "\\040")
    mounts.write_text(ROOT + LINE.format(place=escaped, kind=kind, options=options) + "torn line\n")

    found = only(check_file_system(place / "data", mounts))
    assert (found.state, word in found.text) == (state, True), found
    # What lies elsewhere does not concern it.
    assert only(check_file_system(tmp_path, mounts)).text == "ext4, mounted at /"


def test_the_mount_of_a_real_directory_is_found() -> None:
    found = only(check_file_system(Path("/proc/self")))
    assert found.text.startswith("proc, mounted at /proc")


def test_a_system_without_a_list_of_mounts_tells_nothing(tmp_path: Path) -> None:
    assert list(check_file_system(tmp_path, tmp_path / "missing")) == []


def test_a_full_disk_is_an_error_and_a_nearly_full_one_a_warning(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    free = disk.f_bavail * disk.f_frsize
    rows = [
        check_room(config(storage_path=tmp_path, disk_free_limit_bytes=limit))
        for limit in (0, max(free - 100 * MIB, 0), free * 2)
    ]
    assert [next(iter(row)).state for row in rows] == [State.OK, State.WARNING, State.ERROR]


# The disk


def test_nothing_is_left_of_the_file_that_is_synced(tmp_path: Path) -> None:
    inodes = []

    def sync(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_nlink)
        assert list(tmp_path.iterdir()) == []

    list(check_disk_syncs(tmp_path, sync))
    assert set(inodes) == {0}
    assert len(inodes) <= SYNCS_MAX


@pytest.mark.parametrize(
    ("seconds", "state", "word"),
    [
        (0.000_001, State.WARNING, "stays in memory"),
        (0.001, State.OK, "at most 1000 a second"),
        (0.05, State.WARNING, "at most 20 a second"),
    ],
)
def test_a_sync_that_takes_too_long_or_no_time_is_a_warning(
    tmp_path: Path, seconds: float, state: State, word: str
) -> None:
    times = [0.0]

    def sync(_: int) -> None:
        times[0] += seconds

    found = only(check_disk_syncs(tmp_path, sync, lambda: times[0]))
    assert (found.state, word in found.text) == (state, True), found
    # It ends after two seconds, or 200 syncs.
    assert times[0] <= 2.1


def test_one_long_pause_is_a_warning(tmp_path: Path) -> None:
    times, syncs = [0.0], count()

    def sync(_: int) -> None:
        times[0] += 1.5 if next(syncs) == 3 else 0.001

    found = only(check_disk_syncs(tmp_path, sync, lambda: times[0]))
    assert (found.state, "at worst 1500.0" in found.text) == (State.WARNING, True), found


def test_a_disk_that_refuses_is_an_error(tmp_path: Path) -> None:
    def sync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    found = only(check_disk_syncs(tmp_path, sync))
    assert (found.state, found.text) == (State.ERROR, "cannot write there: Input/output error")


# The clock


def test_a_clock_behind_the_data_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.touch()
    later = time.time() + 7200
    os.utime(path, (later, later))

    found = only(check_clock(tmp_path, is_synchronised=lambda: True))
    assert found.state is State.ERROR
    assert f"minutes before {path} was written" in found.text


@pytest.mark.parametrize(
    ("is_synchronised", "state"),
    [(True, State.OK), (False, State.WARNING), (None, State.UNKNOWN)],
)
def test_a_clock_that_nothing_sets_is_a_warning(
    tmp_path: Path, is_synchronised: bool | None, state: State
) -> None:
    found = only(check_clock(tmp_path, lambda: 0.0, lambda: is_synchronised))
    assert (found.state, "1970-01-01 00:00:00 UTC" in found.text) == (state, True)


def test_the_kernel_is_asked_whether_its_clock_is_set(tmp_path: Path) -> None:
    assert only(check_clock(tmp_path)).state in (State.OK, State.WARNING, State.UNKNOWN)


# Processor and memory


@pytest.mark.parametrize(
    ("quota", "state"), [("50000 100000", State.WARNING), ("max 100000", None), ("", None)]
)
def test_a_control_group_may_leave_half_a_core(
    tmp_path: Path, quota: str, state: State | None
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    (tmp_path / "source").write_text("tsc\n")

    found = only(check_processor(tmp_path / "cpu.max", tmp_path / "source"))
    if state is not None:
        assert found.state is state
        assert found.text.startswith("0.5 of ")
    else:
        assert "limit" not in found.text


def test_a_slow_source_of_time_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("hpet\n")

    *_, last = check_processor(tmp_path / "none", tmp_path / "source")
    assert (last.state, "hpet" in last.text) == (State.WARNING, True)
    *_, last = check_processor(tmp_path / "none", tmp_path / "none")
    assert last.state is State.UNKNOWN


@pytest.mark.parametrize(
    ("changes", "state", "word"),
    [
        (
            {
                "memory_watermark": BROKER_BYTES + 20 * MIB,
                "ring_bytes": MIB,
                "ring_bytes_total": MIB,
            },
            State.OK,
            "",
        ),
        ({"memory_watermark": 8 * MIB}, State.ERROR, "an empty broker has"),
        ({"memory_watermark": BROKER_BYTES + MIB}, State.WARNING, "full rings would take"),
        (
            {"memory_watermark": 1.0, "management_port": 15_672},
            State.WARNING,
            "the kernel would end the process",
        ),
    ],
)
def test_settings_that_do_not_fit_in_the_memory_are_named(
    tmp_path: Path, changes: dict[str, Any], state: State, word: str
) -> None:
    found = only(check_memory(config(**changes), tmp_path / "missing"))
    assert (found.state, word in found.text) == (state, True), found


def test_memory_that_others_have_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:   9000 kB\nMemAvailable:   1024 kB\n")

    *_, last = check_memory(config(), tmp_path / "meminfo")
    assert (last.state, "only 1.0 MiB are free now" in last.text) == (State.WARNING, True)


# Program and data


def test_the_version_of_the_data_is_looked_at(tmp_path: Path) -> None:
    assert list(check_data_format(tmp_path)) == []
    for version, state in (("2", State.OK), ("1", State.WARNING), ("99", State.ERROR)):
        (tmp_path / "FORMAT").write_text(f"{version}\n")
        assert states(check_data_format(tmp_path)) == [state], version


def test_a_program_that_is_interpreted_on_purpose_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cli.doctor.versions.framing.COMPILED", False)
    monkeypatch.setenv("AMQP_SERVER_PURE_PYTHON", "1")
    assert "as AMQP_SERVER_PURE_PYTHON=1 says" in next(check_program()).text
    monkeypatch.delenv("AMQP_SERVER_PURE_PYTHON")
    found = next(check_program())
    assert (found.state, "framing" in found.text) == (State.WARNING, True)


# Ports, files and access


def test_an_address_that_this_machine_does_not_have_is_an_error(tmp_path: Path) -> None:
    found = only(check_ports(config(storage_path=tmp_path, host="192.0.2.1", port=0)))
    assert (found.state, "192.0.2.1" in found.text) == (State.ERROR, True)


def test_who_listens_is_found_by_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert str(holder_of(port)).startswith(f"process {os.getpid()}, ")
    assert holder_of(port) is None


def test_the_days_of_a_certificate_are_counted(tmp_path: Path) -> None:
    pair = Authority(tmp_path).server_pair()
    pair.key.chmod(0o600)
    settings = config(tls_certificate=str(pair.certificate), tls_key=str(pair.key), tls_port=0)
    now = time.time()

    assert states(check_named_files(settings)) == [State.OK]
    days_left = int(next(iter(check_named_files(settings))).text.split()[-3])
    for days, state in ((days_left - 5, State.WARNING), (days_left + 5, State.ERROR)):
        then = now + days * 86_400
        assert states(check_named_files(settings, partial(float, then))) == [state], days
    found = only(check_named_files(settings, lambda: 0.0))
    assert (found.state, "not valid yet" in found.text) == (State.ERROR, True)

    pair.key.chmod(0o644)
    *_, last = check_named_files(settings)
    assert (last.state, "every user can read the private key" in last.text) == (State.WARNING, True)


def test_a_certificate_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    settings = config(tls_certificate=str(tmp_path / "none.pem"), tls_port=0)
    assert states(check_named_files(settings)) == [State.ERROR]
    assert list(check_named_files(config())) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [State.OK]),
        ({"host": "localhost,::1"}, [State.OK]),
        ({"host": "0.0.0.0"}, [State.WARNING]),
        ({"host": "0.0.0.0", "guest_from_anywhere": True}, [State.WARNING, State.WARNING]),
        (
            {"host": "::", "guest_from_anywhere": True, "default_password": "other"},
            [State.WARNING],
        ),
        ({"host": "0.0.0.0", "tls_only": True, "tls_certificate": "a.pem"}, [State.OK]),
    ],
)
def test_who_can_reach_it_and_with_which_password(
    changes: dict[str, Any], expected: list[State]
) -> None:
    assert states(check_access(config(**changes))) == expected


def test_root_is_warned() -> None:
    assert states(check_user()) == ([State.WARNING] if os.geteuid() == 0 else [])
