"""A server that is killed during a replay loses nothing, and the rest can follow."""

from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Queue

from amqp_server.control.client import UnreachableError
from amqp_server.control.queue_client import QueueClient
from tests.amqp_client import connect
from tests.servers import RunningServer

pytestmark = pytest.mark.crash

COUNT = 600
BODY = bytes(10_000)


@pytest.mark.parametrize("to", ["", "again"])
def test_a_killed_replay_can_continue_behind_its_last_report(
    tmp_path: Path, to: str, server: RunningServer
) -> None:
    del tmp_path
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-retain-for": 3_600_000})
        client.declare("again")
        for number in range(COUNT):
            client.publish(b"%04d" % number + BODY, "q")
        client.expect_confirmed()
        # The answer comes when a checkpoint has it: settled messages stay settled.
        client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
    queues = QueueClient(server.storage_path)
    reports: list[dict[str, Any]] = []

    def kill(progress: dict[str, Any]) -> None:
        reports.append(progress)
        server.kill()

    with pytest.raises(UnreachableError):
        queues.replay("q", start="first", to=to, on_progress=kill)
    server.restart()
    where = reports[-1]["next"]
    assert 0 < where < COUNT
    found = [row["body"][:4] for row in queues.browse(to or "q", state="ready", body_bytes_max=4)]
    assert found[:where] == [f"{number:04}" for number in range(where)]
    # What follows may be there in part, in order: it was on its way.
    assert found == [f"{number:04}" for number in range(len(found))]
    queues.replay("q", start=str(where), until=str(COUNT), to=to)
    again = [row["body"][:4] for row in queues.browse(to or "q", state="ready", body_bytes_max=4)]
    assert again == found + [f"{number:04}" for number in range(where, COUNT)]
