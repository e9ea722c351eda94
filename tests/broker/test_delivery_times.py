"""Delivery times: how old deliveries are, in a bounded number of marks."""

from amqp_server.broker.consuming.delivery_times import MARKS_MAX, DeliveryTimes


def test_a_delivery_is_as_old_as_the_first_of_its_mark() -> None:
    times = DeliveryTimes()
    times.record(1, 10.0, 1)
    times.record(9, 11.0, 1)
    assert times.age_seconds(1, 12.0) == 2.0
    assert times.age_seconds(8, 12.0) == 2.0
    assert times.age_seconds(9, 12.0) == 1.0


def test_marks_of_acknowledged_deliveries_are_forgotten() -> None:
    times = DeliveryTimes()
    for tag in range(1, 3 * MARKS_MAX):
        times.record(tag, float(tag), tag - 10)
    now = float(3 * MARKS_MAX)
    for tag in range(3 * MARKS_MAX - 10, 3 * MARKS_MAX):
        assert times.age_seconds(tag, now) == now - tag


def test_old_deliveries_stay_old_when_marks_are_thinned() -> None:
    times = DeliveryTimes()
    for tag in range(1, 20 * MARKS_MAX):
        times.record(tag, float(tag), 1)
    now = float(20 * MARKS_MAX)
    assert times.age_seconds(1, now) == now - 1
    for tag in range(1, 20 * MARKS_MAX, 97):
        assert times.age_seconds(tag, now) >= now - tag


def test_without_deliveries_nothing_is_old() -> None:
    assert DeliveryTimes().age_seconds(1, 5.0) == 0.0
