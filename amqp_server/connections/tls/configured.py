"""TLS settings of a server: for AMQP, and for the management server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amqp_server.base.config import words
from amqp_server.connections.tls.settings import TlsSettings

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig


def amqp_tls(config: ServerConfig) -> TlsSettings:
    """Return what listeners of AMQP use, in a server that has a certificate."""
    return TlsSettings(
        certificates=tuple(words(config.tls_certificate)),
        keys=tuple(words(config.tls_key)),
        password_file=config.tls_key_password_file,
        authorities=config.tls_ca if config.tls_verify == "peer" else "",
        requires_certificate=config.tls_fail_if_no_peer_cert,
        versions=tuple(words(config.tls_versions)),
        ciphers=config.tls_ciphers,
    )


def management_tls(config: ServerConfig) -> TlsSettings:
    """Return what the management server uses: certificates of its own, or those of AMQP.

    Whether clients are asked for a certificate is a setting of its own in either case.
    """
    found = replace(
        amqp_tls(config),
        authorities=config.management_tls_ca if config.management_tls_verify == "peer" else "",
        requires_certificate=config.management_tls_fail_if_no_peer_cert,
        protocols=("http/1.1",),
    )
    if not config.management_tls_certificate:
        return found
    certificates = tuple(words(config.management_tls_certificate))
    keys = tuple(words(config.management_tls_key))
    return replace(found, certificates=certificates, keys=keys)
