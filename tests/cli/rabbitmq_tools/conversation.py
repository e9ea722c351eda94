r"""A conversation with RabbitMQ's command-line tools: what they are told, and what they wrote.

`recorded.txt` has commands with the output of RabbitMQ 3.10's tools (`> `), their errors (`! `) and
their exit codes (`= `). Objects stand in the order of their names, because RabbitMQ's order is that
of a hash table, and `\e` is the octet of an escape.
"""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pika

from tests.limits import HANG_SECONDS

RECORDED: Final = Path(__file__).with_name("recorded.txt")
_PIDS: Final = re.compile(r"<rabbit@host\.[\d.]+>|#PID<[\d.]+>")
_LOGGED: Final = re.compile(r"\d\d:\d\d:\d\d\.\d+ \[")
_PORTS: Final = re.compile(r"(127\.0\.0\.1\t)\d+")


@dataclass(frozen=True)
class Exchange:
    """One command, and what came of it.

    Attributes:
        words: The command, with the name of the tool first.
        output: Lines of standard output.
        errors: Lines of standard error.
        code: Exit code.
    """

    words: tuple[str, ...]
    output: tuple[str, ...]
    errors: tuple[str, ...]
    code: int


def recorded() -> Iterator[str | Exchange]:
    """Yield the headings of the recorded conversation, and its exchanges."""
    words: tuple[str, ...] = ()
    output: list[str] = []
    errors: list[str] = []
    for line in RECORDED.read_text().replace("\\e", "\x1b").splitlines():
        mark, text = line[:1], line[2:]
        if mark == "#":
            yield text
        elif mark == "$":
            words, output, errors = tuple(shlex.split(text)), [], []
        elif mark == ">":
            output.append(text)
        elif mark == "!":
            errors.append(text)
        elif mark == "=":
            yield exchange(words, output, errors, int(text), "rabbit@host")


def exchange(
    words: tuple[str, ...], output: list[str], errors: list[str], code: int, node: str
) -> Exchange:
    """Return an exchange without what differs between two runs."""

    def common(lines: list[str]) -> list[str]:
        text = "\n".join(lines).replace(node, "rabbit@host")
        text = _PORTS.sub(r"\1PORT", _PIDS.sub("<pid>", text))
        return text.split("\n")

    shown = common(output)
    if any(word.startswith("list_") for word in words):
        # Without the separators that depend on the place of an object, in the order of names.
        shown = sorted(line.strip(" ,[]") for line in shown)
    # Some of RabbitMQ's tools log beside what they say, now and then.
    said = "\n".join(line.rstrip() for line in common(errors) if not _LOGGED.match(line))
    return Exchange(words, tuple(shown), tuple(said.lstrip("\n").split("\n")), code)


def run(words: tuple[str, ...], tools: Path, node: str, environment: Mapping[str, str]) -> Exchange:
    """Run one command.

    Args:
        words: The command, with the name of the tool first.
        tools: Directory of the tools.
        node: Name of the node, which the exchange has not.
        environment: Variables of the process.
    """
    done = subprocess.run(
        [str(tools / words[0]), *words[1:]],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    output, errors = done.stdout.removesuffix("\n"), done.stderr.removesuffix("\n")
    return exchange(words, output.split("\n"), errors.split("\n"), done.returncode, node)


@contextmanager
def told(port: int, say: Callable[[tuple[str, ...]], Exchange]) -> Iterator[list[Exchange]]:
    """Run the whole conversation; give the exchanges that differ from the recorded ones.

    Args:
        port: AMQP port of the broker, which has nothing yet.
        say: Runs a command.
    """
    differing: list[Exchange] = []
    with Client(port) as client:
        for each in recorded():
            if isinstance(each, str):
                client.prepare(each)
                continue
            found = say(each.words)
            client.answer()
            if found != each:
                differing.append(found)
        yield differing


class Client:
    """A client of AMQP, so that the tools find something.

    Args:
        port: Port of the broker.
    """

    def __init__(self, port: int) -> None:
        properties = {"connection_name": "one"}
        self._connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", port, heartbeat=0, client_properties=properties)
        )
        self._channel = self._connection.channel()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection, if no tool has closed it."""
        if self._connection.is_open:
            with suppress(pika.exceptions.AMQPError):
                self._connection.close()

    def prepare(self, heading: str) -> None:
        """Make what the commands below a heading are about."""
        if heading == "Queues, exchanges, bindings":
            self._declare()
        elif heading == "Connections":
            self._channel.basic_consume(
                "q1", lambda *_: None, consumer_tag="tag1", arguments={"x-priority": 2}
            )
            self._connection.process_data_events(time_limit=0)

    def answer(self) -> None:
        """Answer the broker when it has closed the connection: RabbitMQ lists it until then."""
        if self._connection.is_open:
            with suppress(pika.exceptions.AMQPError):
                self._connection.process_data_events(time_limit=0)

    def _declare(self) -> None:
        channel = self._channel
        channel.queue_declare("q1", durable=True, arguments={"x-max-length": 1000})
        channel.queue_declare(
            "q2", arguments={"x-message-ttl": 60_000_000, "x-dead-letter-exchange": "amq.fanout"}
        )
        alternate = {"alternate-exchange": "amq.fanout"}
        channel.exchange_declare("ex", "topic", durable=True, arguments=alternate)
        channel.queue_bind("q1", "ex", "a.#")
        channel.queue_bind("q1", "amq.headers", "", {"x-match": "all", "k": 1})
        channel.confirm_delivery()
        for queue in ("q1", "q1", "q2"):
            channel.basic_publish("", queue, b"x")
        channel.basic_qos(prefetch_count=1)
