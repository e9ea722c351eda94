"""Attributes of a connection and of a login in their events, by the names of RabbitMQ's headers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from amqp_server.access.backends.login import INTERNAL

if TYPE_CHECKING:
    from amqp_server.connections.tls.description import TlsDescription
    from amqp_server.protocol.connection_machine import ConnectionMachine


def opened_attributes(
    name: str, machine: ConnectionMachine, tls: TlsDescription | None
) -> dict[str, object]:
    """Return the attributes of a connection that has opened its virtual host.

    Args:
        name: Addresses of both ends.
        machine: Its handshake, which is complete.
        tls: Description of its TLS; None without TLS.
    """
    return {
        **closed_attributes(name, machine),
        "auth_mechanism": machine.mechanism,
        "channel_max": machine.channel_max,
        "connected_at": time.time_ns() // 10**6,
        "frame_max": machine.frame_max,
        "timeout": machine.heartbeat_seconds,
        "ssl": tls is not None,
        "ssl_protocol": "" if tls is None else tls.ssl_protocol,
        "ssl_key_exchange": "" if tls is None else tls.ssl_key_exchange,
        "ssl_cipher": "" if tls is None else tls.ssl_cipher,
        "ssl_hash": "" if tls is None else tls.ssl_hash,
        "peer_cert_subject": "" if tls is None else tls.peer_cert_subject,
        "peer_cert_issuer": "" if tls is None else tls.peer_cert_issuer,
        "peer_cert_validity": "" if tls is None else tls.peer_cert_validity,
    }


def closed_attributes(name: str, machine: ConnectionMachine) -> dict[str, object]:
    """Return the attributes of a connection that has ended."""
    attributes: dict[str, object] = {"name": name, "client_properties": machine.client_properties}
    if machine.client_name:
        attributes["user_provided_name"] = machine.client_name
    return attributes


def backend_details(backend: str) -> dict[str, object]:
    """Return the audit log's details of the back end that has accepted a login."""
    return {} if backend == INTERNAL else {"backend": backend}


def login_attributes(name: str, machine: ConnectionMachine, *, is_tls: bool) -> dict[str, object]:
    """Return the attributes of a login, accepted or refused."""
    return {"connection_name": name, "auth_mechanism": machine.mechanism, "ssl": is_tls}
