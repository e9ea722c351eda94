"""amqp-tools: the command line programs of librabbitmq, the C client."""

import shutil
import subprocess
import threading

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.interop.conftest import Connect
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop


def run(
    program: str, url: str, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run one of the programs to its end."""
    path = shutil.which(program)
    assert path is not None, f"{program} is not installed (Debian: amqp-tools)"
    return subprocess.run(
        [path, f"--url={url}", *arguments],
        input=stdin,
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )


def succeed(program: str, url: str, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a program that must succeed, and return what it prints."""
    outcome = run(program, url, *arguments, stdin=stdin)
    assert outcome.returncode == 0, outcome.stderr.decode()
    return outcome.stdout


def test_declare_publish_get_delete(url: str, name: str) -> None:
    assert (
        succeed("amqp-declare-queue", url, f"--queue={name}", "--durable").strip() == name.encode()
    )
    for body in (b"first", b""):
        succeed("amqp-publish", url, f"--routing-key={name}", "--persistent", stdin=body)
    assert succeed("amqp-get", url, f"--queue={name}") == b"first"
    assert succeed("amqp-get", url, f"--queue={name}") == b""
    assert run("amqp-get", url, f"--queue={name}").returncode == 2  # its way to say: empty
    assert succeed("amqp-delete-queue", url, f"--queue={name}").strip() == b"0"


def test_a_large_message_goes_in_and_out(url: str, name: str) -> None:
    body = bytes(range(256)) * 8192
    succeed("amqp-declare-queue", url, f"--queue={name}")
    succeed("amqp-publish", url, f"--routing-key={name}", stdin=body)
    assert succeed("amqp-get", url, f"--queue={name}") == body


def test_consume_hands_each_message_to_a_command(
    url: str, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name)
    for number in range(20):
        channel.basic_publish("", name, b"%d\n" % number)
    printed = succeed(
        "amqp-consume", url, f"--queue={name}", "--prefetch-count=3", "--count=15", "cat"
    )
    assert printed.split() == [b"%d" % number for number in range(15)]
    assert channel.queue_purge(name).method.message_count == 5


def test_consume_takes_from_an_exchange_by_a_queue_of_its_own(
    url: str, connect: Connect, name: str
) -> None:
    channel = connect().channel()
    channel.confirm_delivery()
    channel.exchange_declare(name, "topic")
    printed: list[bytes] = []
    consuming = threading.Thread(
        target=lambda: printed.append(
            succeed(
                "amqp-consume", url, f"--exchange={name}", "--routing-key=a.#", "--no-ack",
                "--count=1", "cat",
            )
        )
    )  # fmt: skip
    consuming.start()
    while not printed:
        try:
            channel.basic_publish(name, "a.b", b"by topic", mandatory=True)
            break
        except pika.exceptions.UnroutableError:
            assert consuming.is_alive()
    consuming.join(HANG_SECONDS)
    assert printed == [b"by topic"]


def test_a_missing_queue_is_an_error(url: str, name: str) -> None:
    outcome = run("amqp-get", url, f"--queue={name}")
    assert outcome.returncode == 1
    assert b"404" in outcome.stderr
    assert f"NOT_FOUND - no queue '{name}' in vhost '/'".encode() in outcome.stderr
