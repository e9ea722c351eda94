"""A conversation with the HTTP API, recorded from RabbitMQ 3.10.8, and how it is held again.

Each step of `rabbitmq-3.10.json` has a `request` and what RabbitMQ answered: `status`, `location`,
`answer`. Where our server answers otherwise, `ours` has its answer, and `why` the reason. A step
without `answer` has one that differs each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.limits import HANG_SECONDS
from tests.management.conftest import basic

RECORDED: Final = Path(__file__).parent / "rabbitmq-3.10.json"


@dataclass(frozen=True)
class Step:
    """One request with the answers that are expected.

    Attributes:
        fields: The step, as in the file.
    """

    fields: dict[str, Any]

    def answer_of(self, url: str) -> dict[str, Any]:
        """Send the request; return status, and location and answer if there are any."""
        method, path = self.fields["request"].split(" ")
        user = self.fields.get("user", "guest")
        headers = {"Authorization": basic(user, self.fields.get("password"))}
        octets: bytes | None = None
        if "octets" in self.fields:
            octets = self.fields["octets"].encode()
        elif "body" in self.fields:
            octets = json.dumps(self.fields["body"]).encode()
        if octets is not None:
            headers["content-type"] = "application/json"
        headers |= self.fields.get("headers", {})
        parts = urlsplit(url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_SECONDS)
        try:
            connection.request(method, path, octets, headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        found: dict[str, Any] = {"status": response.status}
        if (location := response.getheader("location")) is not None:
            found["location"] = location
        if body:
            # RabbitMQ escapes some texts as if they were HTML.
            found["answer"] = json.loads(body.replace(b"&lt;", b"<").replace(b"&gt;", b">"))
        return found

    def expected(self, *, of_rabbitmq: bool) -> dict[str, Any]:
        """Return what the answer must be; without what differs each time."""
        found = self.fields if of_rabbitmq or "ours" not in self.fields else self.fields["ours"]
        return {name: found[name] for name in ("status", "location", "answer") if name in found}

    def check(self, url: str, *, of_rabbitmq: bool = False) -> None:
        """Send the request, and compare."""
        expected = self.expected(of_rabbitmq=of_rabbitmq)
        answer = self.answer_of(url)
        found = {name: answer.get(name) for name in expected}
        assert comparable(found) == comparable(expected), self.fields["request"]


def steps() -> Iterator[Step]:
    """Yield the recorded steps in their order."""
    for fields in json.loads(RECORDED.read_text()):
        yield Step(fields)


def comparable(value: Any, name: str = "") -> Any:  # noqa: ANN401 - a JSON value
    """Return a value without the order of lists of objects, in which RabbitMQ has none.

    Empty properties are an empty list in RabbitMQ.
    """
    if name == "properties" and value == []:
        return {}
    if isinstance(value, dict):
        return {key: comparable(each, key) for key, each in value.items()}
    if isinstance(value, list):
        found = [comparable(each) for each in value]
        if all(isinstance(each, dict) for each in found):
            return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))
        return found
    return value
