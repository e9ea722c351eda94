"""From a command to the first message that is safe: the smallest trial of an installation.

    python first_message.py                          of the `amqp-server` on the path
    python first_message.py uvx amqp-server          of the server that this command starts

Needs pika and nothing of this project. Prints the seconds from the start of the command to the
confirm of a durable message, which it then gets, kills the server, and gets from the next one.
Fails by a traceback.
"""

import os
import signal
import subprocess
import sys
import time
from tempfile import TemporaryDirectory

import pika

PREFIX = "listening on "


def start(command: list[str], directory: str) -> tuple[subprocess.Popen[str], int]:
    """Start a server with its data in a directory; return it and its port."""
    server = subprocess.Popen(
        [*command, "--port", "0", "--storage-path", directory],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "AMQP_SERVER_MANAGEMENT_PORT": "0", "AMQP_SERVER_METRICS_PORT": "0"},
    )
    assert server.stderr is not None
    lines = []
    for line in server.stderr:
        lines.append(line)
        if line.startswith(PREFIX):
            return server, int(line.rpartition(":")[2])
    raise AssertionError("".join(lines))


def main(command: list[str]) -> None:
    """Publish, kill, consume."""
    with TemporaryDirectory() as directory:
        began = time.monotonic()
        server, port = start(command, directory)
        try:
            client = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
            channel = client.channel()
            channel.confirm_delivery()
            channel.queue_declare("first", durable=True)
            kept = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("", "first", b"Hello!", kept)
            seconds = time.monotonic() - began
        finally:
            # The server may be a child of what was started.
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

        server, port = start(command, directory)
        try:
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as client:
                assert client.channel().basic_get("first")[2] == b"Hello!"
        finally:
            # What was started hands it on; a second signal would end the server at once.
            server.terminate()
            assert server.stderr is not None
            rest = server.stderr.read()
        assert server.wait() == 0, rest
        print(f"first message after {seconds:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:] or ["amqp-server"])
