"""A view of Django, a task of Celery, and a real broker.

    pip install amqp-server celery django pytest
    pytest

The wiring is one line: `amqp_celery_app(app)` in `conftest.py`. It also switches off
CELERY_TASK_ALWAYS_EAGER, with which settings for tests often keep Celery from the broker.
"""

import pytest
from django.core import mail


@pytest.mark.usefixtures("celery_app")
def test_an_order_sends_a_task(amqp_broker, client):
    assert client.post("/orders/1", {"address": "anna@example.com"}).status_code == 202
    sent = amqp_broker.assert_published("shop", headers={"task": "shop.tasks.send_receipt"})
    assert sent.json()[0] == [1, "anna@example.com"]


@pytest.mark.usefixtures("celery_worker")
def test_a_worker_sends_the_receipt(amqp_broker, client):
    client.post("/orders/1", {"address": "anna@example.com"})
    amqp_broker.assert_published("shop")
    amqp_broker.queue("shop").wait_empty()
    assert [(each.subject, each.to) for each in mail.outbox] == [("Order 1", ["anna@example.com"])]


def test_an_order_while_the_broker_is_away(amqp_broker, celery_app, client):
    """Celery tries again for some time, then the customer sees an error, and no task is lost."""
    celery_app.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0}
    amqp_broker.stop()
    client.raise_request_exception = False
    assert client.post("/orders/1", {"address": "anna@example.com"}).status_code == 500
