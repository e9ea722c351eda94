"""URLs of brokers."""

import pytest

from bench.broker_url import BrokerUrl


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("amqp://localhost", BrokerUrl("localhost", 5672, "guest", "guest", "/")),
        ("amqp://h:1/%2F", BrokerUrl("h", 1, "guest", "guest", "/")),
        ("amqp://me:p%40ss@h:1/v", BrokerUrl("h", 1, "me", "p@ss", "v")),
        ("amqp://[::1]:5673", BrokerUrl("::1", 5673, "guest", "guest", "/")),
    ],
)
def test_a_url_is_taken_apart(url: str, parts: BrokerUrl) -> None:
    assert BrokerUrl.parse(url) == parts


@pytest.mark.parametrize("url", ["amqps://h", "localhost:5672", "amqp://h:port"])
def test_what_is_no_amqp_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"amqp://|[Pp]ort"):
        BrokerUrl.parse(url)
