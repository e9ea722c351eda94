"""Addresses of brokers."""

import pytest

from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.errors import UriError


def test_every_part_of_an_address() -> None:
    text = (
        "amqps://us%40er:p%2Fw@[::1]:5673/v%2Fh?heartbeat=7&channel_max=3&connection_timeout=1500"
        "&cacertfile=/ca.pem&certfile=/c.pem&keyfile=/k.pem&verify=verify_none"
        "&server_name_indication=broker&auth_mechanism=external"
    )
    uri = AmqpUri.parse(text)
    assert (uri.user, uri.password, uri.host, uri.port) == ("us@er", "p/w", "::1", 5673)
    assert (uri.vhost, uri.heartbeat, uri.channel_max) == ("v/h", 7, 3)
    assert (uri.connection_timeout_seconds, uri.is_tls, uri.verifies_peer) == (1.5, True, False)
    assert (uri.cacertfile, uri.certfile, uri.keyfile) == ("/ca.pem", "/c.pem", "/k.pem")
    assert (uri.server_name, uri.mechanism) == ("broker", "EXTERNAL")
    assert uri.without_password.startswith("amqps://us%40er@[::1]:5673/v%2Fh?heartbeat=7&")
    assert uri.without_login.startswith("amqps://[::1]:5673/v%2Fh?heartbeat=7&")
    assert "p%2Fw" not in uri.without_password + uri.without_login


@pytest.mark.parametrize(
    ("text", "host", "port", "vhost", "user", "is_local"),
    [
        ("amqp://", "", 5672, None, None, True),
        ("amqp:///v", "", 5672, "v", None, True),
        ("amqp:///", "", 5672, "", None, True),
        ("amqp://h", "h", 5672, None, None, False),
        ("amqps://h", "h", 5671, None, None, False),
        ("amqp://h/", "h", 5672, "", None, False),
        ("amqp://h/%2F", "h", 5672, "/", None, False),
        ("amqp://u@h:1", "h", 1, None, "u", False),
        ("amqp://h?zzz=", "h", 5672, None, None, False),
    ],
)
def test_what_is_left_out(
    text: str, host: str, port: int, vhost: str | None, user: str | None, is_local: bool
) -> None:
    uri = AmqpUri.parse(text.replace("?zzz=", ""))
    assert (uri.host, uri.port, uri.vhost, uri.user) == (host, port, vhost, user)
    assert uri.is_local is is_local
    assert uri.password is None
    assert uri.verifies_peer is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the scheme is ''"),
        ("http://h", "the scheme is 'http'"),
        ("amqp://h:x", "not an address"),
        # What stands in front of an unescaped / or # in a password looks like a port.
        ("amqp://u:secret/x@h", "not an address: the port"),
        ("amqp://u:secret#x@h", "not an address: the port"),
        ("amqp://u:secret℀@h", "not an address"),
        ("amqp://h?cacertfile=" + "é" * 1000, "more than 4096 bytes"),
        ("amqp://h:0", "the port is 0"),
        ("amqp://h:65536", "not an address"),
        ("amqp://[::1", "not an address"),
        ("amqp://h/a/b", "write it as %2F"),
        ("amqp://h/%ff", "the virtual host is not UTF-8"),
        ("amqp://h/%00", "zero octet"),
        ("amqp://u%00:secret@h", "zero octet"),
        ("amqp://h/" + "x" * 256, "more than 255 bytes"),
        ("amqp://u:secret@", "no host"),
        ("amqp://:5672", "no host"),
        ("amqp://h#secret", "behind '#'"),
        ("amqp://h /v", "spaces"),
        ("amqp://h\n/v", "spaces"),
        ("amqp://h?heartbeat=x", "'heartbeat' must be a whole number from 0 to 65535"),
        ("amqp://h?heartbeat=65536", "'heartbeat' must be"),
        ("amqp://h?heartbeat=" + "9" * 5000, "'heartbeat' must be"),
        ("amqp://h?heartbeat=²", "'heartbeat' must be"),
        ("amqp://h?verify=maybe", "'verify' must be one of"),
        ("amqp://h?auth_mechanism=zz", "'auth_mechanism' must be one of"),
        ("amqp://h?zzz=1", "unknown parameter 'zzz'"),
        ("amqp://h?zzz", "malformed"),
    ],
)
def test_what_is_no_address_says_why_without_the_password(text: str, reason: str) -> None:
    with pytest.raises(UriError) as refused:
        AmqpUri.parse(text)
    assert reason in str(refused.value)
    assert "secret" not in str(refused.value)
