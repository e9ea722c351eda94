"""What a terminal shows, and how Ctrl-C ends the command."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY


def test_a_terminal_has_a_table_and_ctrl_c_ends_with_a_report(
    start_server: StartServer, tmp_path: Path
) -> None:
    source, target = start_server(), start_server()
    with connect(source.address) as client:
        client.open_channel(confirms=True)
        client.declare("orders")
        client.publish(b"1", "orders")
        client.expect_confirmed()
    queue = {"name": "orders", "vhost": "/", "durable": True, "arguments": {}}
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue]}))
    command = [
        *(sys.executable, "-P", "-m", "amqp_server", "migrate"),
        *("--from", f"amqp://guest:guest@127.0.0.1:{source.port}", "--definitions", str(file)),
        *("--storage-path", str(target.storage_path)),
    ]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "LINES": "9", "COLUMNS": "90"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True
    ) as process:
        os.close(theirs)
        shown = ""
        while "1 of 1 queues empty" not in shown:
            shown += os.read(ours, 4096).decode()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=HANG_SECONDS)
        os.close(ours)
    assert "LEFT      MOVED   RATE/S  STATE                QUEUE" in shown
    assert "empty                orders" in shown
    assert process.returncode == 0
    assert "moved 1 message (" in out
    assert "of 1 queue in" in out
    assert "is not known without the HTTP API" in out
