"""Walks through a broker's HTTP API, and says of each answer what tools depend on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import orjson
import pika

from tests.limits import HANG_SECONDS
from tests.management.tools import walk_steps
from tests.management.tools.api import Api, Reply
from tests.management.tools.shapes import shape
from tests.management.tools.walk_steps import Step

RECORDED: Final = Path(__file__).parent / "recorded" / "walk.json"
Answer = dict[str, Any]
Ask = Callable[[str], Reply]
_CLOSED: Final = (320, "CONNECTION_FORCED - walked over")
_LOOK_SECONDS: Final = 0.05


def walk(api: Api, look_around: Callable[[Ask], None] | None = None) -> dict[str, Answer]:
    """Send all requests of the walk to a broker that has nothing yet; return what was answered.

    Args:
        api: Of the broker.
        look_around: Called when everything is there, with what gets the value of a path.
    """
    answers: dict[str, Answer] = {}
    names: dict[str, str] = {"amqp_port": str(api.amqp_port)}

    def go(steps: Iterator[Step]) -> None:
        for step in steps:
            assert step.title not in answers, f"{step.title} is there twice"
            path = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], step.path)
            reply = api.ask(step.method, path, step.body, login=step.login, headers=step.headers)
            answers[step.title] = _describe(step, reply, names)

    names["node"] = api.get("/overview")["node"]
    go(walk_steps.objects())
    with _clients(api) as connection_name:
        names["connection"] = quote(connection_name, safe="")
        names["channel"] = quote(f"{connection_name} (1)", safe="")
        if look_around:
            look_around(lambda path: api.ask("GET", _named(path, names)))
        go(walk_steps.reads())
        go(walk_steps.lists())
        go(walk_steps.gets())
        go(walk_steps.mistakes())
        go(walk_steps.rights())
        go(walk_steps.removals())
    return answers


def _named(path: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)


def write(answers: Mapping[str, Answer]) -> None:
    """Keep the answers of RabbitMQ, one a line."""
    lines = [f"{_text(title)}: {_text(answer)}" for title, answer in answers.items()]
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recorded() -> dict[str, Answer]:
    """Return the answers of RabbitMQ as they were written."""
    return cast("dict[str, Answer]", orjson.loads(RECORDED.read_bytes()))


def _text(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


@contextmanager
def _clients(api: Api) -> Iterator[str]:
    """Publish and consume over AMQP until all of it shows in the API; give the connection's name.

    Beside the one that gives its name there is another one, whose queue is exclusive.
    """
    properties = {"connection_name": "walk"}
    parameters = pika.ConnectionParameters(
        api.host, api.amqp_port, client_properties=properties, heartbeat=0
    )
    with pika.BlockingConnection(parameters) as walked, pika.BlockingConnection(parameters):
        channel = walked.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=5)
        channel.queue_declare("exclusive", exclusive=True)
        for number in range(3):
            channel.basic_publish("walk", "a.b", b"%d" % number)
        channel.basic_publish("", "policed", b"policed")
        channel.basic_publish("", "walk-stream", b"streamed")
        channel.basic_publish("", "walk-quorum", b"quorum")
        deliveries: list[object] = []
        channel.basic_consume(
            "walk", lambda *delivery: deliveries.append(delivery), consumer_tag="w"
        )
        deadline = time.monotonic() + HANG_SECONDS
        while len(deliveries) < len(range(3)) + 1:
            assert time.monotonic() < deadline, deliveries
            walked.process_data_events(1)
        channel.basic_ack(1)
        _, port = walked._impl._transport._sock.getsockname()[:2]
        name = f"{api.host}:{port} -> {api.host}:{api.amqp_port}"

        def missing() -> list[str]:
            walked.process_data_events(0)
            return _not_shown(api, quote(name, safe=""))

        wait_until_none(missing)
        yield name
        try:
            while time.monotonic() < deadline + HANG_SECONDS:
                walked.process_data_events(1)
        except pika.exceptions.ConnectionClosedByBroker as closed:
            assert (closed.reply_code, closed.reply_text) == _CLOSED  # noqa: PT017 - or no error
        assert walked.is_closed


def _not_shown(api: Api, connection: str) -> list[str]:
    """Return which statistics have not come; RabbitMQ shows them after some seconds."""
    missing: list[str] = []

    def want(path: str, *keys: str, among: str = "") -> None:
        reply = api.ask("GET", path)
        value = reply.value if reply.status == 200 else {}
        held = value.get(among, {}) if among else value
        missing.extend(f"{path} {among} {key}" for key in keys if not held.get(key))

    for queue in ("walk", "walk-stream", "walk-quorum", "policed", "exclusive"):
        want(f"/queues/%2F/{queue}", "messages_details", "state")
    queue = "/queues/%2F/walk"
    want(queue, "messages_unacknowledged", "consumer_details")
    want(queue, "publish", "deliver", "ack", "deliver_get", among="message_stats")
    want("/exchanges/%2F/walk", "publish_in", "publish_out", among="message_stats")
    want("/overview", "publish", "confirm", "deliver", "ack", among="message_stats")
    want("/vhosts/%2F", "messages_details", "message_stats", "recv_oct")
    want(f"/connections/{connection}", "channels", "recv_oct_details")
    channel = f"/channels/{connection}%20(1)"
    want(channel, "publish", "confirm", "deliver", "ack", among="message_stats")
    want(channel, "consumer_details")
    missing.extend(
        f"/{kind}: {count}"
        for kind, count in (("channels", 1), ("connections", 2))
        if len(api.get(f"/{kind}")) != count
    )
    return missing


def wait_until_none(missing: Callable[[], list[str]]) -> None:
    """Ask what is missing until it is nothing.

    Raises:
        AssertionError: It took too long.
    """
    deadline = time.monotonic() + HANG_SECONDS
    while absent := missing():
        assert time.monotonic() < deadline, f"it never came: {absent}"
        time.sleep(_LOOK_SECONDS)


def _describe(step: Step, reply: Reply, names: Mapping[str, str]) -> Answer:
    answer: Answer = {"status": reply.status}
    if "allow" in reply.headers:
        answer["allow"] = sorted(reply.headers["allow"].split(", "))
    for header in ("location", "www-authenticate", "content-type"):
        if header in reply.headers:
            answer[header] = reply.headers[header]
    body = reply.body
    if reply.headers.get("content-encoding"):
        answer["content-encoding"] = reply.headers["content-encoding"]
        return answer
    if not body:
        return answer
    value: Any = _without_names(orjson.loads(body), names)
    if step.is_exact or reply.status >= 400:
        answer["value"] = value
    elif step.is_brief and isinstance(value, list):
        answer["items"] = len(value)
    elif step.is_brief:
        answer["keys"] = sorted(name for name, held in value.items() if held is not None)
    else:
        answer["shape"] = shape(value)
    return answer


def _without_names(value: object, names: Mapping[str, str]) -> object:
    """Return it without what the machine has chosen: the node's name, ports."""
    text = _text(value).replace(names["node"], "NODE")
    text = re.sub(r'"ports":\[[^]]*\]', '"ports":[0]', text)
    return orjson.loads(re.sub(rf"\b{names['amqp_port']}\b", "0", text))
