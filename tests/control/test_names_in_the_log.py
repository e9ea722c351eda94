"""A name from outside is one quoted value of its log line, whatever it contains."""

from __future__ import annotations

import ast
import re

import pytest

from cli.logs import KeyValueFormatter
from tests.amqp_client import AnyDeclare, connect
from tests.control.asking import Asking
from tests.threaded_server import ThreadedServer

NAME = "x' level=error user='root' \"=\\"
ALL = {"configure": ".*", "write": ".*", "read": ".*"}
VALUE = re.compile(r""" (\w+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^ '"]+)""")


def fields_of(caplog: pytest.LogCaptureFixture, event: str) -> dict[str, str]:
    """Return the fields of the one line of an event, read from its text."""
    lines = [" " + KeyValueFormatter().format(each) for each in caplog.records]
    (line,) = [each for each in lines if f" {event} " in each]
    fields = VALUE.findall(line)
    rest = VALUE.sub("", line)
    assert rest.strip() == event, line
    assert len(fields) == len({key for key, _ in fields}), line
    return {key: ast.literal_eval(text) if text[0] in "'\"" else text for key, text in fields}


def test_a_name_from_outside_cannot_forge_a_field(
    threaded_server: ThreadedServer, asking: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    asking.ask("vhosts.set", name=NAME)
    asking.ask("users.set", name=NAME, password="p", tags=["administrator"])
    asking.ask("permissions.set", vhost=NAME, user=NAME, **ALL)
    policy = {"pattern": NAME[:1], "definition": {"max-length": 5}}
    asking.ask("policies.put", vhost=NAME, name=NAME, policy=policy)
    place = {"vhost": NAME, "component": "federation-upstream", "name": NAME}
    asking.ask("parameters.set", **place, value={"value": 1})
    with connect(threaded_server.address, vhost=NAME, user=NAME, password="p") as client:
        client.open_channel()
        client.declare(NAME, arguments={"x-expires": 1})
        client.send(AnyDeclare(queue=f"{NAME}n", passive=True))
        client.expect_channel_close(404)

    threaded_server.wait_until(lambda: any("queue expired" in each for each in caplog.messages))
    named = {"vhost": NAME, "name": NAME}
    for event, expected in (
        ("vhost added", {"vhost": NAME}),
        ("user set", {"user": NAME, "tags": "administrator"}),
        ("permissions set", {"user": NAME, "vhost": NAME}),
        ("policy set", named),
        ("parameter set", named),
        ("connection open", {"user": NAME, "vhost": NAME}),
        ("queue expired", {"queue": NAME, "vhost": NAME}),
    ):
        fields = fields_of(caplog, event)
        assert {key: fields[key] for key in expected} == expected, event
        assert fields["level"] == "info"
    error = fields_of(caplog, "channel error")["error"]
    assert NAME in error
