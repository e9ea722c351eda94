"""The key under which the limits of an IP address are counted."""

import pytest

from amqp_server.base.socket_names import address_key


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64"),
        ("2001:db8:0:2::7", "2001:db8:0:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_network_has_one_key(host: str, key: str) -> None:
    assert address_key(host) == key
