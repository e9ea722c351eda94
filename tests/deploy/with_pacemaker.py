"""The recipe of Pacemaker and DRBD: their programs read it, and Pacemaker plays a death with it.

No cluster runs: `crm_simulate` says what one would do. `make check-tools` runs this.
"""

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.servers import REPOSITORY

RECIPE: Final = REPOSITORY / "deploy" / "pacemaker"
NODES: Final = ("alpha", "beta")
SECONDS_MAX: Final = 120


def run(*words: str, cluster: Path | None = None) -> str:
    """Run a program, which must succeed; return what it has written."""
    environment = dict(os.environ)
    if cluster is not None:
        environment["CIB_file"] = str(cluster)
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Return a file with the cluster of the recipe: two nodes that are off."""
    path = tmp_path / "cluster.xml"
    empty = run("cibadmin", "--empty")
    path.write_text(empty.replace("<cib ", '<cib have-quorum="1" dc-uuid="1" ', 1))
    for number, name in enumerate(NODES, 1):
        node = f'<node id="{number}" uname="{name}"/>'
        run("cibadmin", "-C", "-o", "nodes", "-X", node, cluster=path)
    # -F: there is no systemd here that knows the unit.
    run("crm", "-F", "configure", "load", "update", str(RECIPE / "cluster.crm"), cluster=path)
    return path


def actions(simulated: str) -> list[str]:
    """Return what the cluster does, in this order."""
    done = simulated.partition("Executing Cluster Transition:")[2]
    done = done.partition("Revised Cluster Status:")[0]
    return re.findall(r"\* (?:Resource action: +)?(.+)", done)


def simulate(cluster: Path, after: Path, *words: str) -> tuple[list[str], str]:
    """Let something happen; return the actions of the cluster, and its state then."""
    command = ["crm_simulate", "-x", str(cluster), "-S", "-O", str(after), *words]
    text = run(*command)
    return [" ".join(each.split()) for each in actions(text)], text.rpartition("Status:")[2]


@pytest.fixture
def running(cluster: Path, tmp_path: Path) -> Path:
    """Return a file with the cluster while the broker runs on `alpha`."""
    on, running = tmp_path / "on.xml", tmp_path / "running.xml"
    simulate(cluster, on, "--node-up", "alpha", "--node-up", "beta")
    # What the agent of DRBD says of disks that are up to date.
    for name, score in zip(NODES, ("10000", "9000"), strict=True):
        words = ["-N", name, "-n", "master-disk", "-v", score, "-l", "reboot"]
        run("crm_attribute", *words, cluster=on)
    simulate(on, running)
    return running


def test_pacemaker_finds_no_mistake_in_the_recipe(running: Path) -> None:
    assert run("crm_verify", "-x", str(running), "-V") == ""


def test_all_parts_of_the_broker_run_on_one_machine(running: Path, tmp_path: Path) -> None:
    _, state = simulate(running, tmp_path / "after.xml")
    for part in ("files", "broker", "address"):
        assert re.search(rf"\* {part}\s.*Started alpha", state)
    assert "Promoted: [ alpha ]" in state
    assert "Unpromoted: [ beta ]" in state


def test_nothing_starts_elsewhere_before_the_dead_machine_is_switched_off(
    running: Path, tmp_path: Path
) -> None:
    done, state = simulate(running, tmp_path / "after.xml", "--node-fail", "alpha")
    steps = [
        "Fencing alpha (reboot)",
        "disk promote on beta",
        "files start on beta",
        "broker start on beta",
        "address start on beta",
    ]
    places = [done.index(step) for step in steps]
    assert places == sorted(places)
    assert re.search(r"\* broker\s.*Started beta", state)


def test_a_broker_that_does_not_stop_costs_its_machine(running: Path, tmp_path: Path) -> None:
    """It waits for its disk: nothing else may use the volume while it may still write."""
    stuck = tmp_path / "stuck.xml"
    run("crm_attribute", "-N", "alpha", "-n", "standby", "-v", "on", cluster=running)
    done, _ = simulate(running, stuck, "--op-fail", "broker_stop_0@alpha=1")
    assert "files stop on alpha" not in done
    assert "broker start on beta" not in done
    done, state = simulate(stuck, tmp_path / "after.xml")
    assert done.index("Fencing alpha (reboot)") < done.index("disk promote on beta")
    assert re.search(r"\* broker\s.*Started beta", state)


def test_a_machine_that_leaves_in_order_hands_the_broker_over(
    running: Path, tmp_path: Path
) -> None:
    run("crm_attribute", "-N", "alpha", "-n", "standby", "-v", "on", cluster=running)
    done, state = simulate(running, tmp_path / "after.xml")
    steps = [
        "address stop on alpha",
        "broker stop on alpha",
        "files stop on alpha",
        "disk demote on alpha",
        "disk promote on beta",
        "files start on beta",
        "broker start on beta",
        "address start on beta",
    ]
    places = [done.index(step) for step in steps]
    assert places == sorted(places)
    assert not any("Fencing" in each for each in done)
    assert re.search(r"\* broker\s.*Started beta", state)


def test_drbd_reads_the_volume(tmp_path: Path) -> None:
    # It answers for resources of its own machine only.
    text = (RECIPE / "amqp.res").read_text().replace("alpha", platform.node())
    (tmp_path / "amqp.res").write_text(text)
    dumped = run("drbdadm", "--config-file", str(tmp_path / "amqp.res"), "dump", "amqp")
    assert re.search(r"protocol\s+C;", dumped)
    assert re.search(r"fencing\s+resource-and-stonith;", dumped)
    assert re.search(r"allow-two-primaries\s+no;", dumped)
