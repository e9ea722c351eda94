"""Keys without effect here that stop the start: without them the server would be less strict."""

import re
from typing import Final, NamedTuple

from cli.rabbitmq_conf.entries import Entry
from cli.rabbitmq_conf.keys import matches


class StrictKey(NamedTuple):
    """A key that makes RabbitMQ stricter.

    Attributes:
        pattern: The key, or several.
        harmless: Pattern of the values that ask for nothing.
        reason: What cannot be had here, and what to do.
    """

    pattern: str
    harmless: str
    reason: str


_NEVER: Final = "(?!)"
_FALSE: Final = "false"

STRICT_KEYS: Final = (
    StrictKey(
        "prometheus.authentication.enabled",
        _FALSE,
        "metrics are open to everybody who reaches the port: keep it to a private network by "
        "management.tcp.ip, or behind a proxy that asks for a login",
    ),
    StrictKey(
        "prometheus.ssl.*",
        _NEVER,
        "metrics come without TLS: put a proxy with TLS before prometheus.tcp.port",
    ),
    StrictKey(
        "management.listener.ssl",
        _FALSE,
        "write management.ssl.port, management.ssl.certfile and management.ssl.keyfile",
    ),
    StrictKey(
        "management.disable_basic_auth",
        _FALSE,
        "logins by name and password cannot be switched off here",
    ),
    StrictKey(
        "management.restrictions.operator_policy_changes.disabled",
        _FALSE,
        "whoever is an administrator may change operator policies here",
    ),
    StrictKey(
        "credential_validator.validation_backend",
        "rabbit_credential_validator_accept_everything",
        "this server checks no strength of passwords",
    ),
)


def refuse_less_strict(entry: Entry) -> None:
    """Refuse an entry that has no effect here, if the server would be less strict without it.

    Raises:
        ConfMistakeError: It would.
    """
    for key in STRICT_KEYS:
        if matches(key.pattern, entry.parts) and not re.fullmatch(key.harmless, entry.value):
            raise entry.mistake(key.reason)
