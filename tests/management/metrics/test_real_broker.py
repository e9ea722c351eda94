"""Every metric that RabbitMQ has is on its page, with its type, labels and help, and counts."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.management.metrics.pages import CHOSEN_BY_NAME
from tests.amqp_client import connect
from tests.management.conftest import ManagementServer, Reply
from tests.management.metrics.samples import helps, samples, types, value
from tests.management.metrics.traffic import (
    EXCHANGE,
    GROUP,
    QUEUE,
    STREAM,
    declare_objects,
    follow_stream,
    use_objects,
)

ABSENT = "-"
NONE = "none"
TABLE = Path(__file__).with_name("rabbitmq_metrics.tsv")
DETAILED = "/metrics/detailed?" + "&".join(f"family={name}" for name in CHOSEN_BY_NAME)
NEVER_THERE = {
    "rabbitmq_auth_attempts_detailed_total",
    "rabbitmq_auth_attempts_detailed_failed_total",
    "rabbitmq_auth_attempts_detailed_succeeded_total",
    "rabbitmq_queue_head_message_timestamp",
}
"""Only their types are there: RabbitMQ has values of them where they are switched on."""
OF_OBJECTS = ("rabbitmq_channel_", "rabbitmq_exchange_", "rabbitmq_queue_")
"""How the names of metrics begin that add up channels, exchanges and queues."""
ONLY_OF_QUEUES = {"rabbitmq_queue_disk_reads_total", "rabbitmq_queue_disk_writes_total"}
"""The broker has no sums of these, so what a deleted queue counted goes with it."""


class Expected:
    """A line of the table of RabbitMQ's metrics.

    Attributes:
        name: Name of the metric.
        type: Its type.
        sum_labels: Labels on the page of sums; None: it is not there.
        labels: Labels of an object.
        help: Its help.
    """

    def __init__(self, line: str) -> None:
        self.name, self.type, on_sums, of_object, self.help = line.split("\t")
        self.sum_labels = None if on_sums == ABSENT else _labels(on_sums)
        self.labels = _labels(of_object)

    @property
    def sample_name(self) -> str:
        """Name of its values: those of a histogram have one of their own."""
        return f"{self.name}_bucket" if self.type == "histogram" else self.name


def _labels(text: str) -> set[str]:
    return set() if text == NONE else set(text.split(","))


EXPECTED = [Expected(line) for line in TABLE.read_text().splitlines()[1:]]
MEMORY = [each for each in EXPECTED if each.name.startswith("rabbitmq_memory_")]
CLUSTER = [each for each in EXPECTED if each.name.startswith("rabbitmq_cluster_")]
OTHERS = [each for each in EXPECTED if each not in MEMORY and each not in CLUSTER]


class Pages:
    """The pages of a broker with traffic."""

    def __init__(self, server: ManagementServer) -> None:
        self.server = server
        self.sums = self.get("/metrics").body
        self.objects = self.get("/metrics/per-object").body
        self.detailed = self.get(DETAILED).body
        self.memory = self.get("/metrics/memory-breakdown").body

    def get(self, path: str, **headers: str) -> Reply:
        """Ask for a page."""
        url = self.server.metrics_url
        return self.server.get(path, url=url, user=None, headers=headers)

    def new_sums(self, **counts: int) -> bytes:
        """Return the page of sums, as soon as it shows so many objects."""
        while True:
            page = self.get("/metrics").body
            if all(value(page, f"rabbitmq_{name}") == count for name, count in counts.items()):
                return page


@pytest.fixture(scope="module")
def pages(shared_management_server: ManagementServer) -> Iterator[Pages]:
    server = shared_management_server
    address = server.server.address
    with connect(address) as client, connect(address) as follower:
        declare_objects(client)
        follow_stream(follower)
        # Nobody confirms it: what counts confirms differs from what counts all.
        follower.publish(b"not confirmed", "no queue of this name")
        follower.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        use_objects(client)
        follower.expect_delivery()
        yield Pages(server)


def differences(page: bytes, name: str, expected: Expected, labels: set[str]) -> list[str]:
    """Return what is not as expected of one metric."""
    if types(page).get(name) != expected.type:
        return [f"{name}: type {types(page).get(name)}"]
    if helps(page)[name] != expected.help:
        return [f"{name}: help {helps(page)[name]}"]
    if expected.name in NEVER_THERE:
        return []
    suffix = expected.sample_name.removeprefix(expected.name)
    shown = labels | {"le"} if suffix else labels
    # The parser lets the name of each counter end with `_total`.
    ends = ("", "_total") if expected.type == "counter" else (suffix,)
    found = [set(sample.labels) for end in ends for sample in samples(page).get(name + end, [])]
    return [] if found == [shown] * max(len(found), 1) else [f"{name}: labels {found[:1]}"]


def test_each_metric_is_on_the_page_of_sums(pages: Pages) -> None:
    shown = [each for each in OTHERS if each.sum_labels is not None]
    assert not [
        wrong
        for each in shown
        for wrong in differences(pages.sums, each.name, each, each.sum_labels or set())
    ]
    others = {each.name for each in EXPECTED} - {each.name for each in shown}
    assert not others & set(types(pages.sums))


def test_each_metric_is_on_the_page_of_objects(pages: Pages) -> None:
    assert not [
        wrong
        for each in OTHERS
        for wrong in differences(pages.objects, each.name, each, each.labels)
    ]


def test_each_metric_of_objects_is_on_the_detailed_page(pages: Pages) -> None:
    of_objects = [each for each in OTHERS if each.labels & {"vhost", "channel", "queue"}]
    assert not [
        wrong
        for each in of_objects
        for wrong in differences(
            pages.detailed,
            each.name.replace("rabbitmq_", "rabbitmq_detailed_"),
            each,
            each.labels,
        )
    ]
    assert not {each.name for each in of_objects} & set(types(pages.detailed))


def test_the_names_of_a_cluster_are_on_the_detailed_page_alone(pages: Pages) -> None:
    assert not [
        wrong
        for each in CLUSTER
        for wrong in differences(pages.detailed, each.name, each, each.labels)
    ]
    assert not {each.name for each in CLUSTER} & {*types(pages.sums), *types(pages.objects)}


def test_the_parts_of_the_memory_have_a_page(pages: Pages) -> None:
    assert not [
        wrong for each in MEMORY for wrong in differences(pages.memory, each.name, each, set())
    ]


def test_no_page_has_a_metric_twice(pages: Pages) -> None:
    for page in (pages.sums, pages.objects, pages.detailed, pages.memory):
        named = [line for line in page.decode().splitlines() if line.startswith("# TYPE ")]
        assert len(named) == len(set(named))
        found = [
            (sample.name, *sorted(sample.labels.items()))
            for every in samples(page).values()
            for sample in every
        ]
        assert len(found) == len(set(found))


def test_sums_count_what_the_client_did(pages: Pages) -> None:
    for name, count in {
        "global_messages_received_total": 10,
        "global_messages_received_confirm_total": 9,
        "global_messages_confirmed_total": 9,
        "global_messages_routed_total": 7,
        "global_messages_unroutable_dropped_total": 2,
        "global_messages_unroutable_returned_total": 1,
        "global_publishers": 2,
        "global_consumers": 1,
        "connections": 2,
        "channels": 2,
        "queues": 3,
        "consumers": 1,
        "connections_opened_total": 2,
        "queues_declared_total": 3,
        "queues_created_total": 3,
        "auth_attempts_succeeded_total": 2,
        "auth_attempts_total": 2,
        "channel_messages_published_total": 10,
        "channel_messages_unroutable_dropped_total": 2,
        "queue_messages_ready": 3,
    }.items():
        assert value(pages.sums, f"rabbitmq_{name}") == count, name


def test_no_sum_of_a_counter_falls_when_what_it_counted_is_gone(
    management_server: ManagementServer,
) -> None:
    pages = Pages(management_server)
    with connect(management_server.server.address) as client:
        declare_objects(client)
        use_objects(client)
        before = pages.new_sums(queues=3, channels=1)
        for queue in (QUEUE, STREAM, "dead"):
            client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
        client.call(Exchange.Delete(exchange=EXCHANGE), Exchange.DeleteOk)
    after = pages.new_sums(queues=0, channels=0)
    kinds = types(before)
    counted = {
        name: found[0].value
        for name, found in samples(before).items()
        if kinds.get(name) == "counter" and name.startswith(OF_OBJECTS)
        if name not in ONLY_OF_QUEUES
    }
    assert counted["rabbitmq_queue_messages_acked_total"] == 2
    assert {name for name, count in counted.items() if value(after, name) < count} == set()


def test_deliveries_are_counted_by_type_of_queue(pages: Pages) -> None:
    for name, count in {
        "messages_delivered_get_manual_ack_total": 3,
        "messages_delivered_get_auto_ack_total": 1,
        "messages_get_empty_total": 1,
        "messages_delivered_consume_manual_ack_total": 1,
        "messages_delivered_consume_auto_ack_total": 1,
        "messages_redelivered_total": 1,
        "messages_acknowledged_total": 2,
    }.items():
        found = value(pages.sums, f"rabbitmq_global_{name}", queue_type="rabbit_classic_queue")
        assert found == count, name
    stream = "rabbitmq_global_messages_delivered_consume_manual_ack_total"
    assert value(pages.sums, stream, queue_type="rabbit_stream_queue") == 1


def test_a_dead_letter_is_counted_by_its_reason(pages: Pages) -> None:
    name = "rabbitmq_global_messages_dead_lettered_rejected_total"
    rejected = [s for s in samples(pages.sums)[name] if s.value]
    assert [(s.labels["queue_type"], s.value) for s in rejected] == [("rabbit_classic_queue", 1)]


def test_sizes_of_messages_have_the_bounds_of_the_dashboard(pages: Pages) -> None:
    lines = pages.sums.decode().splitlines()
    bounds = [
        line.partition('le="')[2].partition('"')[0]
        for line in lines
        if line.startswith("rabbitmq_message_size_bytes_bucket")
    ]
    assert bounds == [
        *("100.0", "1000.0", "10000.0", "100000.0"),
        *("1e+06", "1e+07", "5e+07", "1e+08", "+Inf"),
    ]
    bucket = "rabbitmq_message_size_bytes_bucket"
    assert value(pages.sums, bucket, le="1000.0") == 9
    assert value(pages.sums, bucket, le="+Inf") == 10
    assert value(pages.sums, "rabbitmq_message_size_bytes_count") == 10


def test_each_queue_and_exchange_has_its_own_numbers(pages: Pages) -> None:
    assert value(pages.objects, "rabbitmq_queue_messages_ready", queue=QUEUE, vhost="/") == 1
    assert value(pages.objects, "rabbitmq_queue_messages_ready", queue="dead") == 1
    name = "rabbitmq_exchange_messages_published_total"
    assert value(pages.objects, name, exchange=EXCHANGE) == 6
    assert value(pages.detailed, "rabbitmq_cluster_exchange_bindings", exchange=EXCHANGE) == 1
    assert value(pages.objects, "rabbitmq_queue_info", queue=STREAM) == 1


def test_our_own_metrics(pages: Pages) -> None:
    assert value(pages.objects, "amqp_server_queue_log_end_offset", queue=STREAM) == 1
    assert value(pages.objects, "amqp_server_queue_log_bytes", queue=STREAM) > 0
    assert value(pages.objects, "amqp_server_group_lag", queue=STREAM, group=GROUP) == 1
    assert value(pages.sums, "amqp_server_group_lag") == 1
    assert value(pages.objects, "rabbitmq_stream_consumer_max_offset_lag", queue=STREAM) == 1
    assert value(pages.sums, "amqp_server_fsync_seconds_count") > 0
    assert value(pages.sums, "amqp_server_loop_turn_seconds_count") > 0
    assert value(pages.sums, "amqp_server_checkpoint_age_seconds") >= 0


def test_the_identity_is_that_of_the_http_api(pages: Pages) -> None:
    overview = pages.server.get("/api/overview").json
    name = "rabbitmq_build_info"
    assert value(pages.sums, name, rabbitmq_version=overview["rabbitmq_version"]) == 1
    name = "rabbitmq_identity_info"
    assert value(pages.sums, name, rabbitmq_node=overview["node"]) == 1
    assert value(pages.sums, name, rabbitmq_cluster=overview["cluster_name"]) == 1


def test_headers(pages: Pages) -> None:
    reply = pages.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    packed = pages.get("/metrics", **{"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert types(gzip.decompress(packed.body)) == types(reply.body)
    assert pages.get("/metrics", Accept="application/openmetrics-text").status == 406
    assert pages.get("/metrics/nosuch").status == 404
    assert pages.get("/metrics%2Fdetailed").status == 404
    assert pages.get("/metrics/detailed?family=queue_metrics&queue=(").status == 400
    assert pages.get("/").status == 404
