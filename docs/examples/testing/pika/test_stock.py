"""pika against a real broker, empty for each test: `pip install amqp-server pika pytest`.

The wiring is one line: `pika.URLParameters(amqp_url)`, here in `stock.open_channel`.
"""

import pytest
import stock


@pytest.fixture
def channel(amqp_url):
    channel = stock.open_channel(amqp_url)
    yield channel
    if channel.connection.is_open:
        channel.connection.close()


def test_an_order_is_published(amqp_broker, channel):
    stock.place_order(channel, "hat", 2)
    amqp_broker.assert_published("orders", json={"item": "hat", "count": 2})


def test_orders_count_down_the_stock(amqp_broker, channel):
    shelf = {"hat": 5}
    for _ in range(2):
        stock.place_order(channel, "hat", 2)
    stock.take_orders(channel, shelf)
    assert shelf == {"hat": 1}
    amqp_broker.queue("orders").wait_empty()


def test_an_order_survives_a_crash_of_the_broker(amqp_broker, channel):
    stock.place_order(channel, "hat", 2)
    channel.connection.close()
    amqp_broker.crash()
    assert amqp_broker.queue("orders").ready == 1


def test_an_unknown_item_stays_in_the_queue(amqp_broker, channel):
    stock.place_order(channel, "shoe", 1)
    with pytest.raises(KeyError):
        stock.take_orders(channel, {"hat": 5})
    channel.connection.close()
    assert amqp_broker.queue("orders").ready == 1
