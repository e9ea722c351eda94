"""kombu against a real broker: `pip install amqp-server kombu pytest`, then `pytest`.

The wiring is one line: `kombu.Connection(amqp_url)`, here in `audit.connect`.
"""

import audit
import pytest


@pytest.fixture
def connection(amqp_url):
    with audit.connect(amqp_url) as connection:
        yield connection


def test_payments_are_written_down(amqp_broker, connection):
    audit.announce(connection, "payment.failed", order=1)
    audit.announce(connection, "payment.done", order=1)
    amqp_broker.queue("audit.payments").wait_for(2)
    journal = []
    audit.write_down(connection, journal)
    assert journal == [{"order": 1}, {"order": 1}]
    amqp_broker.queue("audit.payments").wait_empty()


def test_other_events_go_nowhere(amqp_broker, connection):
    audit.announce(connection, "parcel.sent", order=1)
    assert amqp_broker.assert_published(exchange="events", json={"order": 1}).is_unroutable
