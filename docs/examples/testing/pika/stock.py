"""Takes orders off a queue, with pika, and counts down the stock."""

import json

import pika


def open_channel(url):
    """Connect; return a channel whose publishes are confirmed."""
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    return channel


def place_order(channel, item, count):
    """Return when the broker has the order."""
    body = json.dumps({"item": item, "count": count})
    channel.basic_publish("", "orders", body, pika.BasicProperties(delivery_mode=2))


def take_orders(channel, stock):
    """Take the orders that are there; an order is acknowledged when the stock is counted down."""
    while (taken := channel.basic_get("orders"))[0] is not None:
        method, _, body = taken
        order = json.loads(body)
        stock[order["item"]] -= order["count"]
        channel.basic_ack(method.delivery_tag)
