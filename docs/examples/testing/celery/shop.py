"""The tasks of a shop: `celery -A shop worker` runs them.

Who keeps the time while a task waits decides what a test can do with it:

- `charge` is retried by Celery. The worker takes the message at once, and keeps it until the time
  in its header `eta`, by the clock of its own process.
- `ship` is retried by the broker: the message lies in a queue with a lifetime, and comes back as a
  dead letter. `remind_later` leaves a message to an exchange that delays it. RabbitMQ needs the
  plugin rabbitmq_delayed_message_exchange for it.
"""

import services
from celery import Celery, bootsteps
from celery.exceptions import Reject
from kombu import Exchange, Queue

RETRY_SECONDS = 600
TRIES_MAX = 6

# Messages without a header `x-delay` pass it at once.
ORDERS = Exchange("orders", type="x-delayed-message", arguments={"x-delayed-type": "direct"})


def dead_letters_to(queue):
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


ORDERS_QUEUE = Queue(
    "orders", ORDERS, routing_key="orders", queue_arguments=dead_letters_to("orders.dead")
)
SHIPMENTS_QUEUE = Queue(
    "shipments",
    ORDERS,
    routing_key="shipments",
    queue_arguments=dead_letters_to("shipments.retry"),
)
RETRY_QUEUE = Queue(
    "shipments.retry", message_ttl=RETRY_SECONDS, queue_arguments=dead_letters_to("shipments")
)
DEAD_ORDERS_QUEUE = Queue("orders.dead")
DEAD_SHIPMENTS_QUEUE = Queue("shipments.dead", routing_key="shipments.dead")

app = Celery("shop", broker="amqp://guest:guest@localhost/")
app.conf.update(
    task_queues=[ORDERS_QUEUE, SHIPMENTS_QUEUE],
    task_default_queue="orders",
    task_routes={"shop.ship": {"queue": "shipments"}},
)


class DeclareOtherQueues(bootsteps.StartStopStep):
    """Declares the queues that no worker consumes from."""

    requires = ("celery.worker.components:Pool",)

    def start(self, worker):
        with worker.app.connection_for_write() as connection:
            for queue in (RETRY_QUEUE, DEAD_ORDERS_QUEUE, DEAD_SHIPMENTS_QUEUE):
                queue(connection.default_channel).declare()


app.steps["worker"].add(DeclareOtherQueues)


@app.task(
    autoretry_for=(services.NotNowError,),
    max_retries=6,
    retry_backoff=60,
    retry_backoff_max=3600,
    retry_jitter=False,
)
def charge(order):
    """Try at once, then after 1, 2, 4, 8, 16 and 32 minutes."""
    services.charge_card(order)


@app.task(bind=True, acks_late=True)
def ship(self, order):
    """Try six times, every ten minutes; then leave the order to a person."""
    try:
        services.book_courier(order)
    except services.NotNowError as error:
        deaths = (self.request.headers or {}).get("x-death", [])
        tries = 1 + sum(each["count"] for each in deaths if each["reason"] == "rejected")
        if tries < TRIES_MAX:
            raise Reject(error, requeue=False) from error
        self.apply_async((order,), queue=DEAD_SHIPMENTS_QUEUE)


@app.task
def remind(order):
    """Remind the customer of an order."""
    services.send_mail(order)


def remind_later(order, delay):
    """Remind the customer after a `timedelta`."""
    milliseconds = round(delay.total_seconds() * 1000)
    remind.apply_async((order,), headers={"x-delay": milliseconds})


@app.task(acks_late=True, acks_on_failure_or_timeout=False)
def invoice(order):
    """Send an invoice. What fails here is not acknowledged: it becomes a dead letter."""
    if order["total"] < 0:
        raise ValueError(f"order {order['id']} has a negative total")
    services.send_mail(order)
