"""A session with RabbitMQ's `rabbitmqadmin`: every subcommand, and what each of them prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import orjson
import pika

from tests.limits import HANG_SECONDS
from tests.management.tools import command_forks
from tests.management.tools.api import Api
from tests.management.tools.walk import wait_until_none
from tests.servers import REPOSITORY

RECORDED: Final = Path(__file__).parent / "recorded" / "rabbitmqadmin.json"
Printed = list[Any]
"""The command's arguments, its exit status, lines of its output, lines of its errors."""
_PACKAGED: Final = Path("/usr/lib/rabbitmq/lib")
_PATH: Final = "priv/www/cli/rabbitmqadmin"
_OUR_EXCHANGE: Final = "amq.rabbitmq.event"


@dataclass(frozen=True, slots=True)
class Command:
    """One run of the tool.

    Attributes:
        arguments: Behind those that name the broker; `{connection}` is the client's connection.
        stdin: What it reads.
        is_table_of_own: Whether only the names of the columns count: values differ by machine.
    """

    arguments: tuple[str, ...]
    stdin: str = ""
    is_table_of_own: bool = False


@dataclass(frozen=True, slots=True)
class Until:
    """Waits until the API shows a value, which RabbitMQ does late.

    Attributes:
        path: Of an object.
        field: Its field.
        value: What it has to be.
    """

    path: str
    field: str
    value: object


def _run(*arguments: str, stdin: str = "", own: bool = False) -> Command:
    return Command(arguments, stdin, own)


_QUEUE: Final = "/queues/%2F/orders"
SESSION: Final[tuple[Command | Until, ...]] = (
    _run("help", "subcommands"),
    _run("help", "config"),
    _run("nosuch"),
    _run("declare", "vhost", "name=other"),
    _run("declare", "vhost", "name=other", "tracing=false"),
    _run("declare", "user", "name=anna", "password=secret", "tags=management"),
    _run(
        "declare",
        "user",
        "name=bert",
        "password_hash=kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
        "tags=monitoring,own",
    ),
    _run("declare", "user", "name=carl", "password=", "tags="),
    _run("declare", "user", "name=dora", "password_hash=!", "tags="),
    _run("declare", "permission", "vhost=/", "user=bert", "configure=^b", "write=", "read=.*"),
    _run("declare", "permission", "vhost=other", "user=anna", "configure=", "write=", "read="),
    _run("declare", "permission", "vhost=/", "user=nosuch", "configure=", "write=", "read="),
    _run("declare", "exchange", "name=trade", "type=topic"),
    _run("declare", "exchange", "name=inner", "type=fanout", "internal=true", "durable=false"),
    _run("declare", "exchange", "name=trade", "type=direct"),
    _run("declare", "exchange", "name=wrong", "type=nosuch"),
    _run("declare", "queue", "name=orders", "durable=true"),
    _run("declare", "queue", "name=orders", "durable=false"),
    _run("declare", "queue", "name=few", 'arguments={"x-max-length":3,"x-overflow":"drop-head"}'),
    _run("declare", "queue", "name=quorum", "queue_type=quorum"),
    _run("declare", "queue", "name=stream", "queue_type=stream"),
    _run("declare", "queue", "name=brief", "auto_delete=true", "durable=false"),
    _run("-V", "other", "declare", "queue", "name=elsewhere"),
    _run("declare", "queue", "name=wrong", 'arguments={"x-max-length":"x"}'),
    _run("declare", "queue", "name=amq.wrong"),
    _run("declare", "queue"),
    _run("declare", "binding", "source=trade", "destination=orders", "routing_key=order.#"),
    _run("declare", "binding", "source=trade", "destination=orders", "routing_key=a b/c~%é"),
    _run(
        "declare",
        "binding",
        "source=trade",
        "destination=inner",
        "destination_type=exchange",
        "routing_key=#",
    ),
    _run("declare", "binding", "source=trade", "destination=nosuch"),
    _run("declare", "parameter", "component=nosuch", "name=x", "value={}"),
    _run(
        "declare",
        "policy",
        "name=short",
        "pattern=^short",
        'definition={"max-length":10,"overflow":"reject-publish"}',
        "priority=7",
        "apply-to=queues",
    ),
    _run("declare", "policy", "name=wrong", "pattern=(", 'definition={"max-length":1}'),
    _run("declare", "policy", "name=wrong", "pattern=x", 'definition={"nosuch":1}'),
    _run("declare", "operator_policy", "name=cap", "pattern=.*", 'definition={"expires":36000000}'),
    _run("declare", "vhost_limit", "vhost=other", "name=max-queues", "value=10"),
    _run("declare", "vhost_limit", "vhost=other", "name=nosuch", "value=10"),
    _run("publish", "exchange=trade", "routing_key=order.new", "payload=one"),
    _run("publish", "exchange=trade", "routing_key=order.new", stdin="from the input\n"),
    _run(
        "publish",
        "routing_key=orders",
        "payload=three",
        'properties={"delivery_mode":2,"headers":{"a":1,"b":"x"},"content_type":"text/plain"}',
    ),
    _run("publish", "exchange=trade", "routing_key=nowhere", "payload=x"),
    _run("publish", "exchange=nosuch", "routing_key=x", "payload=x"),
    Until(_QUEUE, "messages", 3),
    Until("/queues/%2F/quorum", "messages", 0),
    Until("/queues/%2F/stream", "messages", 0),
    Until("/queues/%2F/few", "messages", 0),
    Until("/queues/%2F/brief", "messages", 0),
    Until("/queues/other/elsewhere", "messages", 0),
    Until("/vhosts/%2F", "messages", 3),
    Until("/vhosts/other", "messages", 0),
    _run("list", "queues"),
    _run("list", "queues", "vhost", "name", "durable", "arguments", "node"),
    _run("-V", "other", "list", "queues"),
    _run("-V", "nosuch", "list", "queues"),
    _run("--sort=name", "--sort-reverse", "list", "queues", "name"),
    _run("-f", "tsv", "list", "queues", "name", "durable", "messages_ready", "consumers"),
    _run("-f", "kvp", "list", "queues", "name", "type", "state"),
    _run("-f", "long", "list", "queues", "vhost", "name", "auto_delete", "exclusive"),
    _run("-f", "bash", "list", "queues"),
    _run("-f", "raw_json", "-V", "other", "list", "queues", "name", "arguments"),
    _run("-f", "pretty_json", "list", "queues", "name", "vhost", "arguments"),
    _run("-f", "nosuch", "list", "queues"),
    _run("-q", "list", "consumers", own=True),
    _run("list", "exchanges"),
    _run("list", "exchanges", "name", "type", "durable", "auto_delete", "internal", "arguments"),
    _run("-V", "/", "list", "exchanges"),
    _run("-V", "/", "list", "bindings"),
    _run(
        "-V", "/", "list", "bindings", "source", "destination_type", "destination", "properties_key"
    ),
    _run("list", "users", "name", "tags"),
    _run("list", "users", own=True),
    _run("list", "vhosts"),
    _run("list", "vhosts", "name", "tracing"),
    _run("list", "permissions"),
    _run("list", "parameters"),
    _run("list", "policies"),
    _run("list", "operator_policies"),
    _run("list", "vhost_limits"),
    _run("list", "nodes", own=True),
    _run("list", "nodes", "type", "running", "rates_mode", "partitions"),
    _run("list", "connections"),
    _run("list", "connections", "user", "vhost", "protocol", "state", "frame_max", "channel_max"),
    _run("list", "channels"),
    _run("list", "channels", "name", "prefetch_count", "confirm", "consumer_count"),
    _run("list", "consumers", "consumer_tag", "queue.name", "ack_required", "prefetch_count"),
    _run("-d", "2", "list", "consumers", own=True),
    _run("list", "nosuch"),
    _run("show", "overview", own=True),
    _run("show", "overview", "queue_totals.messages", "object_totals.queues"),
    _run("get", "queue=orders"),
    _run("get", "queue=orders", "count=2", "ackmode=ack_requeue_true"),
    _run("get", "queue=orders", "count=1", "ackmode=ack_requeue_false", "encoding=base64"),
    _run("-f", "pretty_json", "get", "queue=orders", "count=1", "ackmode=reject_requeue_false"),
    _run("get", "queue=orders", "payload_file={directory}/payload", "ackmode=ack_requeue_false"),
    _run("get", "queue=orders"),
    _run("get", "queue=nosuch"),
    _run("get", "queue=stream"),
    _run("export", "{directory}/definitions.json"),
    _run("import", "{directory}/definitions.json"),
    _run("-V", "other", "export", "{directory}/other.json"),
    _run("-V", "other", "import", "{directory}/other.json"),
    _run("-u", "bert", "-p", "test12", "list", "queues", "name"),
    _run("-u", "bert", "-p", "test12", "declare", "queue", "name=bertha"),
    _run("-u", "bert", "-p", "test12", "declare", "queue", "name=other"),
    _run("-u", "bert", "-p", "test12", "declare", "user", "name=x", "password=x", "tags="),
    _run("-u", "bert", "-p", "wrong", "list", "queues"),
    _run("publish", "routing_key=few", "payload=x"),
    _run("purge", "queue", "name=few"),
    _run("purge", "queue", "name=nosuch"),
    _run("close", "connection", "name={connection}"),
    _run("close", "connection", "name=nosuch"),
    _run(
        "delete",
        "binding",
        "source=trade",
        "destination=orders",
        "destination_type=queue",
        "properties_key=order.%23",
    ),
    _run("delete", "binding", "source=trade", "destination=orders", "destination_type=queue"),
    _run("-V", "/", "list", "bindings", "source", "routing_key"),
    _run("delete", "policy", "name=short"),
    _run("delete", "operator_policy", "name=cap"),
    _run("delete", "vhost_limit", "vhost=other", "name=max-queues"),
    _run("delete", "parameter", "component=nosuch", "name=x"),
    _run("delete", "permission", "vhost=/", "user=bert"),
    _run("delete", "queue", "name=few"),
    _run("delete", "queue", "name=few"),
    _run("delete", "exchange", "name=trade"),
    _run("delete", "exchange", "name=amq.direct"),
    _run("delete", "user", "name=anna"),
    _run("delete", "vhost", "name=other"),
    _run("delete", "vhost", "name=nosuch"),
)


def run_session(api: Api, directory: Path) -> list[Printed]:
    """Run the whole session against a broker that has nothing yet; return what was printed."""
    printed: list[Printed] = []
    broker = ["-H", api.host, "-P", str(api.port)]
    with _client(api) as connection, tool(directory) as run:
        for step in SESSION:
            if isinstance(step, Until):
                _wait(api, step)
                continue
            names = {"{connection}": connection, "{directory}": str(directory)}
            arguments = [_replaced(argument, names) for argument in step.arguments]
            status, output, errors = run([*broker, *arguments], step.stdin)
            lines = _without_names(output, api, directory)
            if step.is_table_of_own:
                lines = _columns(lines)
            complaints = _without_names(errors, api, directory)
            printed.append([" ".join(step.arguments), status, lines, complaints])
        payload = (directory / "payload").read_text()
        printed.append(["the file with the payload", 0, [payload], []])
    return printed


@contextmanager
def tool(home: Path) -> Iterator[Callable[[list[str], str], tuple[int, str, str]]]:
    """Give a function that runs the tool; it takes arguments and input."""
    (program,) = _PACKAGED.glob("rabbitmq_server-*/plugins/rabbitmq_management-*/" + _PATH)
    process = subprocess.Popen(
        [sys.executable, "-m", command_forks.__name__, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={"HOME": str(home), "PYTHONIOENCODING": "utf-8"},
    )
    assert process.stdin
    assert process.stdout
    given, answers = process.stdin, process.stdout

    def run(arguments: list[str], text: str) -> tuple[int, str, str]:
        given.write(json.dumps([arguments, text]) + "\n")
        given.flush()
        status, output, errors = json.loads(answers.readline())
        return status, output, errors

    try:
        yield run
    finally:
        given.close()
        answers.close()
        process.wait(HANG_SECONDS)


def write(printed: list[Printed]) -> None:
    """Keep what RabbitMQ's answers made the tool print, one command a line."""
    lines = [orjson.dumps(each).decode() for each in printed]
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def is_same(rabbitmq: Printed, ours: Printed) -> bool:
    """Return whether a command printed what it printed with RabbitMQ.

    Of tables whose values differ by machine, ours may have more columns. The exchange of events,
    which is a plugin's in RabbitMQ, is not looked at.
    """
    own = {" ".join(s.arguments) for s in SESSION if isinstance(s, Command) and s.is_table_of_own}
    if rabbitmq[0] in own:
        return bool(rabbitmq[1] == ours[1]) and set(rabbitmq[2]) <= set(ours[2])
    shown = [line for line in ours[2] if _OUR_EXCHANGE not in line]
    return rabbitmq == [*ours[:2], shown, *ours[3:]]


def recorded() -> list[Printed]:
    """Return what was written."""
    return cast("list[Printed]", orjson.loads(RECORDED.read_bytes()))


@contextmanager
def _client(api: Api) -> Iterator[str]:
    """Consume from a queue of its own; give the name of the connection."""
    parameters = pika.ConnectionParameters(api.host, api.amqp_port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.queue_declare("consumed", durable=True)
    channel.basic_consume("consumed", lambda *_: None, consumer_tag="tag")
    _, port = connection._impl._transport._sock.getsockname()[:2]
    name = f"{api.host}:{port} -> {api.host}:{api.amqp_port}"
    wait_until_none(lambda: [] if _has_client(api) else ["the client"])
    try:
        yield name
    finally:
        # The session has closed it, if it came so far.
        with suppress(pika.exceptions.AMQPError):
            connection.close()


def _has_client(api: Api) -> bool:
    """Return whether the client shows whole."""
    connections, channels = api.get("/connections"), api.get("/channels")
    queue = api.get("/queues/%2F/consumed")
    return (
        len(connections) == len(channels) == len(api.get("/consumers")) == 1
        and connections[0].get("channels") == 1
        and channels[0].get("prefetch_count") == 7
        and channels[0].get("consumer_count") == 1
        and queue.get("messages") == 0
    )


def _wait(api: Api, until: Until) -> None:
    def missing() -> list[str]:
        found = api.get(until.path).get(until.field)
        return [] if found == until.value else [f"{until}: {found}"]

    wait_until_none(missing)


def _replaced(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def _without_names(text: str, api: Api, directory: Path) -> list[str]:
    text = text.replace(str(directory), "DIRECTORY")
    if text.startswith("Traceback"):
        return ["Traceback", text.splitlines()[-1]]
    text = re.sub(rf"{api.host}:\d+ -> {api.host}:\d+", "CLIENT -> BROKER", text)
    text = re.sub(r"[\w-]+@[\w-]+", "NODE", text)
    # Tables are as wide as the names were.
    text = re.sub(r"-{5,}", "-----", text)
    return [re.sub(r" {2,}", "  ", line) for line in text.splitlines()]


def _columns(lines: list[str]) -> list[str]:
    """Return the names of the columns of a table, of which others may have more."""
    if lines and lines[0].startswith("+"):
        return sorted(lines[1].replace("|", " ").split())
    return sorted({line.split(":")[0].strip() for line in lines if ": " in line})
