"""An import that the disk has accepted, and has no room to write: the broker starts and works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pamqp.commands import Queue

from cli.main import main
from metadata.redo_file import REDO_NAME
from tests.amqp_client import connect
from tests.crash.full_disk import FullDisk
from tests.crash.messages import drain, flags, publish_confirmed
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

DOCUMENTS = "/metadata/queues/"


def import_queues(directory: Path, *names: str) -> int:
    """Import durable queues by the command line; return its exit code."""
    file = directory / "definitions.json"
    queues = [
        {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
        for name in names
    ]
    file.write_text(json.dumps({"queues": queues}))
    return main(["definitions", "import", str(file), "--storage-path", str(directory / "data")])


def test_the_next_start_has_them_deletes_make_room_and_then_they_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    disk = FullDisk(tmp_path / "data")
    redo = disk.root / "metadata" / REDO_NAME
    with ThreadedServer(disk.root, disk) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("large")
        publish_confirmed(client, "large", range(10))
        disk.full = DOCUMENTS
        assert import_queues(tmp_path, "a", "b") == 0
        assert import_queues(tmp_path, "c") == 1
        assert "nothing was imported" in capsys.readouterr().err
    # The stop was clean; the start neither fails nor waits.
    assert redo.exists()
    with ThreadedServer(disk.root, disk) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        publish_confirmed(client, "a", range(3))
        assert client.ready_count("large") == 10
        deleted = client.call(Queue.Delete(queue="large"), Queue.DeleteOk)
        assert deleted.message_count == 10
        assert redo.exists()
        disk.full = None
        server.wait_until(lambda: not redo.exists())
    with ThreadedServer(disk.root) as server, connect(server.address) as client:
        client.open_channel()
        assert drain(client, "a") == flags(range(3), redelivered=False)
        assert client.ready_count("b") == 0
        client.send(Queue.Declare(queue="c", passive=True))
        client.expect_channel_close(404)
