"""What the handshakes of one kind of listener use: files, versions and whom they ask for what.

A value without the server's settings, so that the process of the management server has it too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Settings of TLS.

    Attributes:
        certificates: PEM files, each with its chain; clients that name no known host get the first.
        keys: PEM files of their keys, in the same order; empty: in the files of the certificates.
        password_file: File whose first line decrypts the keys; empty: they are not encrypted.
        authorities: PEM file of the authorities of clients; empty: clients are asked for no
            certificate.
        requires_certificate: Whether a client must have a certificate, if clients are asked.
        versions: Versions that are accepted: `1.2`, `1.3`.
        ciphers: Cipher suites of TLS 1.2 in OpenSSL's notation; empty: OpenSSL's own.
        protocols: What is spoken over TLS, for clients that ask (ALPN); empty: nothing is said.
    """

    certificates: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    password_file: str = ""
    authorities: str = ""
    requires_certificate: bool = False
    versions: tuple[str, ...] = ("1.2", "1.3")
    ciphers: str = ""
    protocols: tuple[str, ...] = ()
