"""The benchmark of TLS measures each load with TLS and without, and loses nothing."""

from bench.brokers import OURS
from bench.tls import BODY_BYTES, measure

MEGABYTE = 1_000_000


def test_every_size_is_measured_plain_and_with_tls() -> None:
    figures = list(measure(OURS, 4 * MEGABYTE))

    loads = [(figure.body_bytes, figure.is_tls) for figure in figures]
    assert loads == [(size, is_tls) for size in BODY_BYTES for is_tls in (False, True)]
    for figure in figures:
        assert figure.message_count > 0
        assert figure.elapsed_seconds > 0
        assert figure.text.startswith(OURS)
