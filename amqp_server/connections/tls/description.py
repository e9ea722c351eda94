"""Description of a connection's TLS, with the names and forms of RabbitMQ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.connections.tls.peer_certificate import distinguished_name, validity

if TYPE_CHECKING:
    import ssl

_AUTHENTICATED: Final = ("gcm", "ccm", "ccm8", "poly1305")
"""Ends of ciphers that need no hash of their own."""


class TlsDescription(NamedTuple):
    """Description of one TLS connection.

    Attributes:
        ssl: True.
        ssl_protocol: Version, such as `tlsv1.3`.
        ssl_key_exchange: Such as `ecdhe_rsa`; `any` with TLS 1.3.
        ssl_cipher: Such as `aes_256_gcm`.
        ssl_hash: Such as `sha384`; `aead` if the cipher needs none.
        peer_cert_subject: Name of the client's certificate; empty if it has none.
        peer_cert_issuer: Name of the authority that signed it; empty if it has none.
        peer_cert_validity: From when until when it is valid; empty if it has none.
    """

    ssl: bool
    ssl_protocol: str
    ssl_key_exchange: str
    ssl_cipher: str
    ssl_hash: str
    peer_cert_subject: str
    peer_cert_issuer: str
    peer_cert_validity: str


def describe_tls(ssl_object: ssl.SSLObject) -> TlsDescription:
    """Return what is known of a connection after its handshake."""
    certificate = ssl_object.getpeercert() or {}
    suite = ssl_object.cipher()
    exchange, cipher, digest = _parts_of(suite[0] if suite else "")
    return TlsDescription(
        True,
        (ssl_object.version() or "").lower(),
        exchange,
        cipher,
        digest,
        distinguished_name(certificate.get("subject", ())),  # type: ignore[arg-type]
        distinguished_name(certificate.get("issuer", ())),  # type: ignore[arg-type]
        validity(certificate) if certificate else "",
    )


def _parts_of(suite: str) -> tuple[str, str, str]:
    """Return key exchange, cipher and hash of a suite as OpenSSL names it."""
    if suite.startswith("TLS_"):
        words = suite.removeprefix("TLS_").lower().split("_")
        return "any", "_".join(words[:-1]), "aead"
    words = suite.lower().split("-")
    # ECDHE-RSA-AES256-GCM-SHA384, ECDHE-ECDSA-CHACHA20-POLY1305, AES128-SHA.
    at = next((i for i, word in enumerate(words) if word.startswith(("aes", "chacha"))), 0)
    exchange = "_".join(words[:at]) or "rsa"
    rest = words[at:]
    digest = rest.pop() if rest and rest[-1].startswith("sha") else ""
    cipher = "_".join(rest)
    for bits in ("128", "256"):
        cipher = cipher.replace(f"aes{bits}", f"aes_{bits}")
    if cipher.endswith(_AUTHENTICATED):
        return exchange, cipher, "aead"
    return exchange, f"{cipher}_cbc", digest
