"""Reads a client's certificate, in RabbitMQ's words: names, validity, the user who logs in.

The certificate comes as `ssl.SSLObject.getpeercert` returns it. It is verified: who is not asked
for a certificate has none.

Source: RFC 4514, with the departures of RabbitMQ: octets from `~` on are escaped too.
"""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amqp_server.base.config import ServerConfig

    Certificate = Mapping[str, Any]
    RelativeNames = Sequence[Sequence[tuple[str, str]]]

_SHORT_NAMES: Final = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "userId": "UID",
}
_SAN_KINDS: Final = {"dns": "DNS", "ip": "IP Address", "email": "email", "uri": "URI"}
_ESCAPED: Final = frozenset(b'"+,;<>\\')
_FIRST_PRINTABLE: Final = 32
_FIRST_ESCAPED: Final = 126


def login_name(certificate: Certificate, config: ServerConfig) -> str:
    """Return the name of the user whom a certificate logs in; empty if it names none.

    A name with a control character is none: text that is shown or compared up to the character
    would be another user's. In a distinguished name they are escaped.

    Args:
        certificate: Verified certificate; empty if the client has none.
        config: Settings, which say where the name stands.
    """
    match config.ssl_cert_login_from:
        case "common_name":
            pairs = [pair for names in certificate.get("subject", ()) for pair in names]
            name = ",".join(value for kind, value in pairs if kind == "commonName")
        case "subject_alternative_name":
            name = _alternative_name(certificate, config)
        case _:
            name = distinguished_name(certificate.get("subject", ()))
    return name if name.isprintable() else ""


def distinguished_name(names: RelativeNames) -> str:
    r"""Return a subject or an issuer as text: `CN=x,OU=a\, b,O=y`, the last name first."""
    return ",".join("+".join(map(_pair_text, each)) for each in reversed(names))


def validity(certificate: Certificate) -> str:
    """Return from when until when a certificate is valid, in UTC."""
    return " - ".join(_time_text(certificate[key]) for key in ("notBefore", "notAfter"))


def _alternative_name(certificate: Certificate, config: ServerConfig) -> str:
    kind = _SAN_KINDS[config.ssl_cert_login_san_type]
    found = [value for each, value in certificate.get("subjectAltName", ()) if each == kind]
    if config.ssl_cert_login_san_index >= len(found):
        return ""
    name = str(found[config.ssl_cert_login_san_index])
    if kind == "IP Address":
        try:
            # OpenSSL writes IPv6 addresses in full.
            return str(ipaddress.ip_address(name.strip()))
        except ValueError:
            return ""
    return name


def _pair_text(pair: tuple[str, str]) -> str:
    kind, value = pair
    return f"{_SHORT_NAMES.get(kind) or _number_of(kind)}={_escape(value)}"


def _number_of(kind: str) -> str:
    """Return the dotted number of an attribute, from OpenSSL's name of it."""
    try:
        return str(ssl._ASN1Object.fromname(kind).oid)
    except ValueError:
        # OpenSSL knows no name for it: this is the number.
        return kind


def _escape(value: str) -> str:
    octets = value.encode("utf-8", "surrogatepass")
    last = len(octets) - 1
    text = []
    for at, octet in enumerate(octets):
        char = chr(octet)
        is_special = octet in _ESCAPED or (at == 0 and char in " #") or (at == last and char == " ")
        if is_special:
            text.append(f"\\{char}")
        elif octet < _FIRST_PRINTABLE or octet >= _FIRST_ESCAPED:
            text.append(f"\\{octet:02X}")
        else:
            text.append(char)
    return "".join(text)


def _time_text(text: str) -> str:
    seconds = ssl.cert_time_to_seconds(text)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
