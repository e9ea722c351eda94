"""Each metric of all virtual hosts together shows a counter of its own.

The tests with a real broker cannot tell two counters that its client lets count alike.
"""

from amqp_server.management.metrics.families.global_families import GLOBAL_PUBLISHES
from amqp_server.management.metrics.object_filter import ObjectFilter
from amqp_server.management.metrics.object_lines import sum_lines
from tests.management.metrics.mirror_rows import FixedMirror, FixedRow


def test_each_metric_shows_its_own_counter() -> None:
    counters = {
        "publish": 1,
        "publish_confirm": 2,
        "routed": 3,
        "confirm": 4,
        "drop_unroutable": 5,
        "return_unroutable": 6,
        "publishers": 7,
        "consumers": 8,
    }
    mirror = FixedMirror(overview=FixedRow({**counters, "message_stats": counters}))
    text = "".join(sum_lines(GLOBAL_PUBLISHES, mirror, ObjectFilter()))
    shown = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert {name.partition("{")[0]: number for name, number in shown} == {
        "rabbitmq_global_messages_received_total": "1",
        "rabbitmq_global_messages_received_confirm_total": "2",
        "rabbitmq_global_messages_routed_total": "3",
        "rabbitmq_global_messages_confirmed_total": "4",
        "rabbitmq_global_messages_unroutable_dropped_total": "5",
        "rabbitmq_global_messages_unroutable_returned_total": "6",
        "rabbitmq_global_publishers": "7",
        "rabbitmq_global_consumers": "8",
    }
