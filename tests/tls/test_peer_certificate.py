"""Names of certificates as RabbitMQ writes them."""

from __future__ import annotations

import pytest

from amqp_server.connections.tls.peer_certificate import distinguished_name, validity


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), ""),
        (((("commonName", "x"),),), "CN=x"),
        (
            ((("countryName", "SE"),), (("organizationName", "ops"),), (("commonName", "u"),)),
            "CN=u,O=ops,C=SE",
        ),
        (((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b"),
        (((("commonName", 'a,b+c"d<e>f;g\\h'),),), r"CN=a\,b\+c\"d\<e\>f\;g\\h"),
        (((("commonName", " a "),),), r"CN=\ a\ "),
        (((("commonName", "# a#"),),), r"CN=\# a#"),
        (((("commonName", "  "),),), r"CN=\ \ "),
        (((("commonName", "a\0b\n"),),), r"CN=a\00b\0A"),
        (((("commonName", "é~\x7f"),),), r"CN=\C3\A9\7E\7F"),
        (((("emailAddress", "a@b"),), (("domainComponent", "org"),)), "DC=org,EMAILADDRESS=a@b"),
        (((("description", "text"),),), "2.5.4.13=text"),
        (((("1.2.3.4", "text"),),), "1.2.3.4=text"),
    ],
)
def test_a_distinguished_name(names: tuple[tuple[tuple[str, str], ...], ...], text: str) -> None:
    assert distinguished_name(names) == text


def test_a_validity() -> None:
    certificate = {
        "notBefore": "Nov 22 04:13:25 2026 GMT",
        "notAfter": "Dec 12 04:13:25 2026 GMT",
    }
    assert validity(certificate) == "2026-11-22T04:13:25Z - 2026-12-12T04:13:25Z"
