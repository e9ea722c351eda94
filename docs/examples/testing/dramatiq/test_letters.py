"""dramatiq against a real broker and worker: `pip install amqp-server 'dramatiq[rabbitmq]' pytest`.

The wiring is the fixture `broker` in `conftest.py`. dramatiq keeps the time of retries and delays
itself: the worker takes the message off the queue `letters.DQ`, and waits by the clock of its
process. So a test reads in the message when it is due. What the broker does with time is turned:
dead letters vanish after a week.
"""

import time

import letters
import pytest


def test_a_letter_is_written(broker, worker):
    letters.write.send("Anna")
    broker.join("letters", timeout=5000)
    assert letters.written == ["Anna"]


@pytest.mark.usefixtures("worker")
def test_a_letter_that_fails_is_due_again_later(amqp_broker):
    before_ms = time.time() * 1000
    letters.write.send("")
    again = amqp_broker.assert_published("letters.DQ").json()["options"]
    assert again["retries"] == 1
    assert again["eta"] >= before_ms + 60_000


@pytest.mark.usefixtures("worker")
def test_a_letter_that_fails_for_good_is_kept_for_a_week(amqp_broker):
    letters.write.send_with_options(args=("",), retries=3)  # as if it had failed so often
    dead = amqp_broker.queue("letters.XQ")
    dead.wait_for(1)
    assert dead.messages()[0].headers["x-death"][0]["queue"] == "letters"
    amqp_broker.clock.advance(days=6)
    assert dead.ready == 1
    amqp_broker.clock.advance(days=1, minutes=1)
    assert dead.ready == 0
