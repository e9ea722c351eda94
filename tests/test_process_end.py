"""A process ends with its sockets shut down, whatever it lacks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.limits import HANG_SECONDS

BEGIN = """
import os, resource, socket, sys, threading
from amqp_server.base.process_end import end_at_once

listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
accepted, _ = listener.accept()
client.settimeout(5)
# As a process whose threads wait for the disk: the kernel closes nothing.
os._exit = lambda code: None
"""
NO_FILE = """
os.system("true")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
"""
NO_THREAD = """
def refuse(thread):
    raise RuntimeError("can't start new thread")

threading.Thread.start = refuse
"""
END = """
end_at_once(74, lambda: None)
sys.stdout.write(repr(client.recv(1)))
"""


@pytest.mark.parametrize("lack", ["", NO_FILE, NO_THREAD], ids=["nothing", "files", "threads"])
def test_sockets_are_shut_down(lack: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + lack + END],
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.stdout == b"b''", done.stderr.decode()
