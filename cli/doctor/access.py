"""Who could reach a server with these settings, and with which password."""

import os
from collections.abc import Iterator
from typing import Final

from amqp_server.base.config import ServerConfig
from amqp_server.base.socket_names import is_loopback
from cli.doctor.finding import Finding, ok, warning

SUBJECT: Final = "access"
USER: Final = "user"
_LOCAL_NAMES: Final = frozenset({"localhost", "localhost.localdomain"})


def check_access(config: ServerConfig) -> Iterator[Finding]:
    """Yield whether strangers could read what passes, or log in."""
    hosts = [host for host, _ in config.plain_addresses]
    open_hosts = [host for host in hosts if not _is_local(host)]
    everywhere = [*open_hosts, *(host for host, _ in config.tls_addresses if not _is_local(host))]
    if not everywhere:
        yield ok(SUBJECT, "programs of this machine only (--host)")
    elif open_hosts:
        yield warning(
            SUBJECT,
            f"other machines reach {', '.join(open_hosts)} without TLS: passwords and messages can "
            "be read on the way",
            "--tls-certificate with --tls-only, or a network that you trust",
        )
    else:
        yield ok(SUBJECT, "other machines need TLS")
    if everywhere and config.guest_from_anywhere and _is_known_password(config):
        yield warning(
            SUBJECT,
            "--guest-from-anywhere with the password that everybody knows",
            "--default-pass-file, or `amqp-server users password guest`",
        )


def check_user() -> Iterator[Finding]:
    """Yield whether the server would have more rights than it needs."""
    if os.geteuid() == 0:
        yield warning(
            USER,
            "this is root: so would be whoever finds a hole in the server",
            "run it as a user of its own (deploy/amqp-server.service)",
        )


def _is_local(host: str) -> bool:
    return host in _LOCAL_NAMES or is_loopback(host)


def _is_known_password(config: ServerConfig) -> bool:
    return config.default_user == "guest" and config.default_password == "guest"  # noqa: S105
