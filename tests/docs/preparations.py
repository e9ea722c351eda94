"""What a reader of a page has before the page begins."""

from dataclasses import dataclass
from typing import Final

CHANNEL: Final = """
import pika

connection = pika.BlockingConnection(pika.ConnectionParameters(heartbeat=0))
channel = connection.channel()


def on_message(channel, method, properties, body):
    pass
"""
"""A program that has connected."""

ORDERS: Final = """
python - <<'END'
import pika

channel = pika.BlockingConnection().channel()
channel.queue_declare("orders", durable=True)
for number in range(20):
    properties = pika.BasicProperties(delivery_mode=2, headers={"customer": number % 10})
    channel.basic_publish("", "orders", b"an order", properties)
END
"""
"""A queue with messages."""

SPARK: Final = """
from pyspark.sql import SparkSession
from pyspark_amqplog import enable

spark = SparkSession.builder.getOrCreate()
enable(spark)
"""
"""A program with a Spark session."""

TOOLS: Final = "amqp-server install-rabbitmq-tools /usr/local/bin\n"
RABBITMQ_CONF: Final = """
mkdir --parents /etc/rabbitmq
echo 'listeners.tcp.default = 5672' >/etc/rabbitmq/rabbitmq.conf
"""

FURNITURE: Final = (
    CHANNEL
    + """
to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def order(customer, body):
    properties = pika.BasicProperties(delivery_mode=2, headers={"customer": str(customer)})
    channel.basic_publish("", "orders", body, properties)


for queue in "dead", "again", "orders-later":
    channel.queue_declare(queue, durable=True)
channel.queue_declare("orders", durable=True, arguments=to_dead)
for number in range(2):
    order(7, b"a bed")
    channel.basic_reject(channel.basic_get("orders")[0].delivery_tag, requeue=False)
channel.queue_delete("orders")
channel.queue_declare("orders", durable=True)
for customer, body in (
    (7, b"two chairs"), (7, b"a table"), (12, b"a lamp"), (7, b"a sofa"), (31, b"six plates")
):
    order(customer, body)
for number in range(2):
    channel.basic_ack(channel.basic_get("orders")[0].delivery_tag)
channel.basic_get("orders")
"""
)
"""Orders of which two are settled and one is unacked; two dead letters."""

EVENTS: Final = (
    CHANNEL
    + """
channel.confirm_delivery()
channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
for number in range(1000):
    channel.basic_publish("", "events", b"event")
channels = connection.channel(), connection.channel()
for group, each in zip(("audit", "billing"), channels):
    each.basic_qos(prefetch_count=100)
    arguments = {"x-consumer-group": group, "x-stream-offset": "first"}
    each.basic_consume("events", on_message, arguments=arguments)
channels[0].close()
channels[1].basic_ack(40, multiple=True)
channels[1].basic_ack(42)
"""
)
"""A stream that two groups have read."""


@dataclass(frozen=True)
class Preparation:
    """What a reader has, and types.

    Attributes:
        has_server: Whether `amqp-server` runs in the page's directory; its data is in `data`.
        shell: Commands that were run.
        python: A program whose names the programs of the page use.
        is_console_first: Whether the page shows a command before the session that makes its files.
    """

    has_server: bool = True
    shell: str = ORDERS
    python: str = ""
    is_console_first: bool = False


PREPARATIONS: Final = {
    "README.md": Preparation(shell="amqp-server definitions export definitions.json"),
    "docs/availability.md": Preparation(
        shell=f"{ORDERS}mkdir /data; ln -s $PWD/data /data/amqp-a; ln -s $PWD/data /data/amqp-b",
        python=SPARK,
    ),
    "docs/browse-and-replay.md": Preparation(shell="", python=FURNITURE),
    "docs/coming-from-rabbitmq.md": Preparation(
        shell=f"{RABBITMQ_CONF}amqp-server definitions export rabbit.json"
    ),
    "docs/configuration.md": Preparation(
        shell=f"{RABBITMQ_CONF}amqp-server vhosts add orders\n"
        "amqp-server users add shop --password-file - <<<secret"
    ),
    "docs/events.md": Preparation(python=CHANNEL),
    "docs/firehose.md": Preparation(shell=f"{TOOLS}amqp-server vhosts add team", python=CHANNEL),
    "docs/guarantees.md": Preparation(python=CHANNEL),
    "docs/offsets.md": Preparation(
        shell="amqp-server shards create orders --shards 2 --type stream", python=EVENTS
    ),
    "docs/operations.md": Preparation(shell=f"{ORDERS}mkdir /backup"),
    "docs/sharding.md": Preparation(
        shell="", python=f"{CHANNEL}\nworker, total, handle = 0, 4, on_message\n"
    ),
    "docs/shovel.md": Preparation(shell=TOOLS),
    "docs/statistics.md": Preparation(python=EVENTS),
    "docs/tls.md": Preparation(has_server=False, shell="", is_console_first=True),
    "docs/users.md": Preparation(
        shell="mkdir --parents /run/secrets; echo secret >/run/secrets/amqp",
    ),
}
