"""The text is what Prometheus' own library would write, whatever the names of queues are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from amqp_server.management.metrics.exposition import value_text
from amqp_server.management.metrics.families.queue_families import QUEUE_COARSE
from amqp_server.management.metrics.object_filter import ObjectFilter
from amqp_server.management.metrics.object_lines import OBJECTS_IN_PIECE, object_lines, sum_lines
from tests.management.metrics.mirror_rows import mirror_of_queues
from tests.management.metrics.samples import samples, value

HOSTILE = (
    'a"b',
    "a\\",
    "a\nb",
    '"} 1\nrabbitmq_queues 99\n#',
    "\r\n",
    "\t \x0b\x0c",
    "é 水 \U0001f600",
    '{vhost="/"}',
    "\\n",
    "\u2028\u2029\x85",
    "",
    "x" * 255,
)


class ReadyOfOneQueue(Collector):
    """The metric of a queue with one ready message, as the library writes it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def collect(self) -> list[Metric]:
        family = GaugeMetricFamily(
            "rabbitmq_queue_messages_ready",
            "Messages ready to be delivered to consumers",
            labels=("queue",),
        )
        family.add_metric([self._name], 1)
        return [family]


def lines_of_queues(*names: str) -> str:
    pieces = object_lines(QUEUE_COARSE, "rabbitmq_", mirror_of_queues(*names), ObjectFilter())
    return "".join(pieces)


@pytest.mark.parametrize("name", HOSTILE)
def test_each_line_is_as_the_library_writes_it(name: str) -> None:
    theirs = generate_latest(ReadyOfOneQueue(name)).decode()
    ours = lines_of_queues(name)
    # The library writes whole numbers as 1.0.
    assert ours.startswith(theirs.replace("{queue=", '{vhost="/",queue=').removesuffix(".0\n"))


@given(st.lists(st.text(max_size=20), unique=True, max_size=8))
def test_every_name_is_read_back_by_the_librarys_parser(names: list[str]) -> None:
    read = samples(lines_of_queues(*names).encode()).get("rabbitmq_queue_messages_ready", [])
    assert [sample.value for sample in read] == list(range(1, len(names) + 1))
    assert [sample.labels for sample in read] == [{"vhost": "/", "queue": name} for name in names]


def test_octets_that_are_no_utf_8_show_as_escapes() -> None:
    page = lines_of_queues("a\udcff", "a\udcfe").encode()
    assert value(page, "rabbitmq_queue_messages_ready", queue="a\\xff") == 1
    assert value(page, "rabbitmq_queue_messages_ready", queue="a\\xfe") == 2


@pytest.mark.parametrize("count", [0, 1, OBJECTS_IN_PIECE, OBJECTS_IN_PIECE + 1])
def test_every_object_is_in_exactly_one_piece(count: int) -> None:
    names = [f"q{number}" for number in range(count)]
    read = samples(lines_of_queues(*names).encode()).get("rabbitmq_queue_messages_ready", [])
    assert [sample.labels["queue"] for sample in read] == names


@pytest.mark.parametrize(("pattern", "pauses"), [("", 1), ("q", 100)])
def test_the_reader_may_pause_after_each_name_that_was_searched(pattern: str, pauses: int) -> None:
    mirror = mirror_of_queues(*(f"q{number}" for number in range(100)))
    wanted = ObjectFilter(queue_pattern=pattern)
    pieces = list(object_lines(QUEUE_COARSE, "rabbitmq_", mirror, wanted))
    assert pieces.count("") == pauses


def test_sums_have_no_labels_and_add_up() -> None:
    text = "".join(sum_lines(QUEUE_COARSE, mirror_of_queues("a", "b", "c"), ObjectFilter()))
    assert "\nrabbitmq_queue_messages_ready 6\n" in text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (0, "0"),
        (10**18, "1000000000000000000"),
        (-1, "-1"),
        (True, "1.0"),
        (0.5, "0.5"),
        (float("inf"), "+Inf"),
        ("text", "NaN"),
        ([], "NaN"),
    ],
)
def test_values(shown: object, text: str) -> None:
    assert value_text(shown) == text
