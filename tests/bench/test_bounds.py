"""The bounds of the generator, measured against a broker that does nothing."""

from bench.bounds import measure_consumer, measure_publisher


def test_the_publisher_is_measured_against_a_sink() -> None:
    bound = measure_publisher(0.1, body_bytes=128)

    assert bound.messages_per_second > 0
    assert bound.cpu_seconds_per_million > 0


def test_the_consumer_is_measured_against_deliveries_from_memory() -> None:
    bound = measure_consumer(runs=1, body_bytes=128)

    assert bound.messages_per_second > 0
    assert bound.cpu_seconds_per_million > 0
