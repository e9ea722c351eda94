"""A program that forks while it has logs open."""

from pathlib import Path

import pytest

from appendlog import LogClosedError, LogFollower
from offsets import Consumer, LogCatalog, LogRoot
from tests.embedded.logs import BY_HAND, read_on
from tests.embedded.processes import Process

FORKING = """
import os
from appendlog import LogClosedError
from offsets import Consumer, LogRoot
logs = LogRoot.open(root)
logs.append("events", b"0")
logs.sync()
logs.append("events", b"1")
consumer = Consumer(root, "g")
consumer.ack("events", 0)
until_told, telling = os.pipe()
child = os.fork()
if not child:
    for use in (
        lambda: logs.append("events", b"2"),
        lambda: logs.log("others"),
        lambda: consumer.poll(),
        lambda: consumer.sync(),
    ):
        try:
            use()
        except LogClosedError:
            print("closed", flush=True)
        else:
            print("used", flush=True)
    consumer.close()
    logs.close()
    print("left", flush=True)
    os.close(telling)
    os.read(until_told, 1)
    os._exit(0)
sys.stdin.readline()
consumer.close()
logs.close()
print("released", flush=True)
sys.stdin.readline()
os.close(telling)
os.waitpid(child, 0)
"""


def test_a_child_has_nothing_of_it_open_and_the_parent_everything(tmp_path: Path) -> None:
    with Process(FORKING, tmp_path) as parent:
        assert [parent.line() for _ in range(5)] == [*["closed"] * 4, "left"]
        parent.tell("go on")
        assert parent.line() == "released"
        # The child still lives, and holds up nobody.
        with LogRoot.open(tmp_path) as logs:
            assert logs.log("events").end_offset == 2
        parent.tell("end")
        assert parent.wait() == 0
    with LogFollower(LogCatalog(tmp_path).find()["events"].directory) as follower:
        assert [each.payload for each in read_on(follower)] == [b"0", b"1"]
    with Consumer(tmp_path, "g") as consumer:
        assert consumer.committed("events") == 1


def test_what_is_abandoned_takes_nothing_and_gives_its_locks_up(tmp_path: Path) -> None:
    logs = LogRoot.open(tmp_path, BY_HAND)
    log = logs.log("events")
    consumer = Consumer(tmp_path, "g")
    for each in (consumer, log, logs):
        each.abandon()
        each.close()
    for use in (lambda: log.append(b"0"), lambda: logs.log("others"), consumer.poll):
        with pytest.raises(LogClosedError):
            use()
    with LogRoot.open(tmp_path, BY_HAND), Consumer(tmp_path, "g"):
        pass
