"""CPU and memory of this process and of its children."""

import os
import subprocess
import sys

from bench.process_stats import ServerProbe, process_tree


def test_a_process_is_seen_with_its_memory_and_cpu() -> None:
    probe = ServerProbe(os.getpid())
    cpu_seconds = probe.cpu_seconds()
    assert cpu_seconds is not None
    while (now := probe.cpu_seconds()) == cpu_seconds:
        pass
    assert now is not None
    assert now > cpu_seconds

    peak, anonymous = probe.peak_rss_bytes(), probe.rss_anon_bytes()
    assert peak is not None
    assert anonymous is not None
    assert peak > anonymous > 0


def test_the_largest_anonymous_memory_is_kept() -> None:
    probe = ServerProbe(os.getpid())
    before = probe.rss_anon_bytes_max
    assert before is not None
    block = bytearray(b"x" * 64_000_000)
    probe.sample()
    del block
    probe.sample()

    assert probe.rss_anon_bytes_max is not None
    assert probe.rss_anon_bytes_max > before + 30_000_000


def test_children_belong_to_a_process_tree() -> None:
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= set(process_tree(os.getpid()))
        child.communicate(b"\n")


def test_a_probe_may_leave_the_children_out() -> None:
    command = [sys.executable, "-c", "print(); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with_children = ServerProbe(os.getpid()).rss_anon_bytes()
        alone = ServerProbe(os.getpid(), has_children=False).rss_anon_bytes()
        child.communicate(b"\n")
    assert with_children is not None
    assert alone is not None
    assert with_children > alone + 1_000_000


def test_nothing_is_known_of_a_broker_that_runs_elsewhere() -> None:
    probe = ServerProbe(None)

    assert probe.cpu_seconds() is None
    assert probe.peak_rss_bytes() is None
    assert probe.rss_anon_bytes_max is None
    assert probe.others_cores(0.0) is None
