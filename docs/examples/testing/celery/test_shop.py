"""A real broker and a real Celery worker, in this process; hours pass in milliseconds.

    pip install amqp-server celery pytest
    pytest

What the broker does with time, `amqp_broker.clock` turns: lifetimes, delays, dead letters. What
Celery does with time (`countdown`, `eta`, `retry`) goes by the clock of the worker, which nothing
turns. There the test reads in the message when Celery would run the task.

`advance(answer_seconds=5)` waits for the worker: until it has acknowledged or rejected all that it
has, and for 5 seconds at most.
"""

from datetime import UTC, datetime, timedelta

import pytest
import services
import shop


@pytest.fixture
def pass_time(amqp_broker, celery_worker):
    """Let the broker's time pass, in which a worker does what comes to it."""

    def advance(**span):
        amqp_broker.clock.advance(**span, answer_seconds=5)

    return advance


# Retries by the broker


def test_a_shipment_is_tried_every_ten_minutes(pass_time, courier):
    courier.is_down = True
    shop.ship.delay(1)
    pass_time()
    assert len(courier.calls) == 1
    pass_time(minutes=9)
    assert len(courier.calls) == 1
    pass_time(minutes=1)
    assert len(courier.calls) == 2

    courier.is_down = False
    pass_time(hours=1)
    assert len(courier.calls) == 3


def test_a_shipment_that_fails_for_an_hour_is_left_to_a_person(amqp_broker, pass_time, courier):
    courier.is_down = True
    shop.ship.delay(1)
    pass_time(hours=1)
    assert len(courier.calls) == shop.TRIES_MAX
    (left,) = amqp_broker.queue("shipments.dead").messages()
    assert left.headers["task"] == "shop.ship"
    assert left.json()[0] == [1]
    assert amqp_broker.queue("shipments.retry").ready == 0


# A delay by the broker


def test_a_reminder_comes_a_day_later(pass_time, mail):
    shop.remind_later(1, timedelta(days=1))
    pass_time(hours=23, minutes=59)
    assert mail.calls == []
    pass_time(minutes=1)
    assert mail.calls == [1]


# Retries and delays by Celery


@pytest.mark.usefixtures("celery_worker")
@pytest.mark.parametrize(("tries", "minutes"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32)])
def test_celery_tries_a_charge_again_after(amqp_broker, bank, tries, minutes):
    bank.is_down = True
    before = datetime.now(UTC)
    shop.charge.apply_async((1,), retries=tries - 1)  # as if it had failed so often
    again = amqp_broker.assert_published("orders", headers={"retries": tries})
    delay = timedelta(minutes=minutes)
    assert before + delay <= datetime.fromisoformat(again.headers["eta"])
    assert datetime.fromisoformat(again.headers["eta"]) <= datetime.now(UTC) + delay


@pytest.mark.usefixtures("celery_worker")
def test_celery_gives_up_after_an_hour(amqp_broker, bank):
    bank.is_down = True
    charge = shop.charge.apply_async((1,), retries=6)
    with pytest.raises(services.NotNowError):
        charge.get(timeout=5, interval=0.01)
    assert len(amqp_broker.published("orders")) == 1


def test_no_clock_turns_what_the_worker_keeps(amqp_broker, pass_time, mail):
    before = datetime.now(UTC)
    shop.remind.apply_async((1,), countdown=3600)
    sent = amqp_broker.assert_published("orders", headers={"task": "shop.remind"})
    assert datetime.fromisoformat(sent.headers["eta"]) >= before + timedelta(hours=1)
    amqp_broker.clock.advance(hours=2)
    assert mail.calls == []
    assert amqp_broker.queue("orders").unacked == 1


# Dead letters and poison


def test_an_order_that_is_not_right_is_a_dead_letter(amqp_broker, pass_time, mail):
    shop.invoice.delay({"id": 1, "total": -5})
    shop.invoice.delay({"id": 2, "total": 5})
    pass_time()
    assert [order["id"] for order in mail.calls] == [2]
    (dead,) = amqp_broker.queue("orders.dead").messages()
    assert dead.json()[0] == [{"id": 1, "total": -5}]
    assert dead.headers["x-death"][0]["reason"] == "rejected"


def test_a_task_that_no_worker_knows_is_a_dead_letter(amqp_broker, pass_time):
    shop.app.send_task("shop.task_of_the_next_version")
    pass_time()
    (dead,) = amqp_broker.queue("orders.dead").messages()
    assert dead.headers["task"] == "shop.task_of_the_next_version"


def test_celery_acknowledges_what_it_cannot_decode(amqp_broker, pass_time, mail):
    """This one is lost: no dead letter, only a line in the worker's log."""
    with shop.app.connection_for_write() as connection:
        connection.Producer().publish(
            b"{poison",
            content_type="application/json",
            content_encoding="utf-8",
            exchange="orders",
            routing_key="orders",
        )
    shop.invoice.delay({"id": 2, "total": 5})
    pass_time()
    assert [order["id"] for order in mail.calls] == [2]
    assert amqp_broker.queue("orders").counts.unacked == 0
    assert amqp_broker.queue("orders.dead").ready == 0
