"""By what name an address gets its share of what clients wait for."""

import pytest

from amqp_server.base.socket_names import share_of


@pytest.mark.parametrize(
    ("host", "share"),
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
def test_an_ipv6_network_has_one_share(host: str, share: str) -> None:
    assert share_of(host) == share
