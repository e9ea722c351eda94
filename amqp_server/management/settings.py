"""The settings of the management server, which the broker writes to its standard input."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from amqp_server.connections.tls.settings import TlsSettings


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """A socket that the broker has bound and that listens already.

    Attributes:
        descriptor: File descriptor, inherited.
        kind: `http` for the API and the page, `metrics` for Prometheus.
        is_tls: Whether clients have to speak TLS.
        host: Address.
        port: Port.
    """

    descriptor: int
    kind: str
    is_tls: bool
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ManagementSettings:
    """Settings that the management server gets at its start.

    Attributes:
        storage_path: Data directory of the broker, with its control socket.
        broker_pid: Process id of the broker.
        listeners: Sockets to serve.
        tls: Files of TLS.
        cors_origins: Origins whose pages may use the API; `*` for all.
        hosts: Names by which clients may reach the server; empty: see `HostRule`.
        guest_from_anywhere: Whether `guest` may log in from other machines.
        node_name: Name of the node: `rabbit@` and the short name of the host.
        server_version: Version of amqp-server.
        presented_version: Version that clients are shown.
        amqp_listeners: Address, port and protocol (`amqp`, `amqp/ssl`) of each of the broker's
            listeners.
    """

    storage_path: Path
    broker_pid: int
    listeners: tuple[ListenerSettings, ...] = ()
    tls: TlsSettings = field(default_factory=TlsSettings)
    cors_origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    guest_from_anywhere: bool = False
    node_name: str = "rabbit@localhost"
    server_version: str = ""
    presented_version: str = ""
    amqp_listeners: tuple[tuple[str, int, str], ...] = ()


def decode_settings(line: bytes) -> ManagementSettings:
    """Return the settings that a line has."""
    values: dict[str, Any] = orjson.loads(line)
    values["storage_path"] = Path(values["storage_path"])
    values["listeners"] = tuple(ListenerSettings(**each) for each in values["listeners"])
    tls = {name: _as_tuple(value) for name, value in values["tls"].items()}
    values["tls"] = TlsSettings(**tls)
    values["cors_origins"] = tuple(values["cors_origins"])
    values["hosts"] = tuple(values["hosts"])
    values["amqp_listeners"] = tuple((h, p, k) for h, p, k in values["amqp_listeners"])
    known = {each.name for each in fields(ManagementSettings)}
    return ManagementSettings(**{name: values[name] for name in known & values.keys()})


def _as_tuple(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    return tuple(value) if isinstance(value, list) else value
