"""Compares what a broker answered to the walk with what RabbitMQ did.

What RabbitMQ does not say, the other may say: no tool fails by a field that it does not know.
RabbitMQ's `null`s may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from tests.management.tools.shapes import ABSENT, deviations
from tests.management.tools.walk import Answer
from tests.management.tools.wanted_differences import WANTED, Wanted

_ORDERED: Final = re.compile(r"[?&](page|sort)=|/get")
_IDENTITY: Final = (
    "vhost",
    "name",
    "user",
    "component",
    "source",
    "destination",
    "destination_type",
    "routing_key",
    "exchange",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two brokers answered differently.

    Attributes:
        title: Of the step.
        place: `status`, or the name of a header, or the way to a field.
        rabbitmq: What RabbitMQ has there.
        ours: What the other one has.
    """

    title: str
    place: str
    rabbitmq: object
    ours: object

    def __str__(self) -> str:
        """Return one line for people."""
        return f"{self.title} | {self.place} | {self.rabbitmq} | {self.ours}"


def differences(rabbitmq: Mapping[str, Answer], ours: Mapping[str, Answer]) -> Iterator[Difference]:
    """Compare all answers."""
    for title, theirs in rabbitmq.items():
        own = ours.get(title, {})
        if theirs["status"] != own.get("status"):
            yield Difference(
                title, "status", _told(theirs), f"{own.get('status')} {own.get('value', '')}"
            )
            continue
        for place, expected in theirs.items():
            found = own.get(place, ABSENT)
            if place == "shape":
                for below, wanted, there in deviations(place, expected, found):
                    yield Difference(title, below, wanted, there)
            elif place == "value":
                yield from _of_values(title, place, expected, found)
            elif place == "keys":
                if missing := set(expected) - set(found):
                    yield Difference(title, place, sorted(missing), ABSENT)
            elif expected != found:
                yield Difference(title, place, expected, found)


def unwanted(found: Iterator[Difference]) -> tuple[list[Difference], list[Wanted]]:
    """Return the differences that no rule wants, and the rules that none of them met."""
    unmet = list(WANTED)
    rest: list[Difference] = []
    for difference in found:
        rules = [
            rule
            for rule in WANTED
            if re.search(rule.title, difference.title)
            and re.fullmatch(rule.place, difference.place)
        ]
        unmet = [rule for rule in unmet if rule not in rules]
        if not rules:
            rest.append(difference)
    return rest, unmet


def _told(answer: Answer) -> str:
    return f"{answer['status']} {answer.get('value', '')}"


def _of_values(title: str, place: str, rabbitmq: Any, ours: Any) -> Iterator[Difference]:  # noqa: ANN401 - what JSON holds
    if isinstance(rabbitmq, dict) and isinstance(ours, dict):
        for key, expected in rabbitmq.items():
            if expected is not None or key in ours:
                yield from _of_values(title, f"{place}.{key}", expected, ours.get(key, ABSENT))
    elif isinstance(rabbitmq, list) and isinstance(ours, list) and len(rabbitmq) == len(ours):
        if not _ORDERED.search(title) and all(isinstance(each, dict) for each in rabbitmq + ours):
            rabbitmq, ours = sorted(rabbitmq, key=_identity), sorted(ours, key=_identity)
        for expected, found in zip(rabbitmq, ours, strict=True):
            yield from _of_values(title, f"{place}[]", expected, found)
    elif rabbitmq != ours or type(rabbitmq) is not type(ours):
        yield Difference(title, place, rabbitmq, ours)


def _identity(row: dict[str, object]) -> bytes:
    return orjson.dumps([row.get(key) for key in _IDENTITY])
