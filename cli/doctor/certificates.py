"""Files that the settings name: certificates and their keys, definitions, files of back ends."""

import logging
import ssl
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from amqp_server.admin.named_files import check_files
from amqp_server.base.config import ServerConfig, words
from amqp_server.base.errors import StartupError
from amqp_server.connections.tls.certificate_files import describe_certificate
from cli.display import shown
from cli.doctor.finding import Finding, error, ok, warning

SUBJECT: Final = "files"
DAYS_MIN: Final = 30
_DAY_SECONDS: Final = 86_400
_RENEW: Final = "renew it, then send SIGHUP to the server"


def check_named_files(
    config: ServerConfig, now: Callable[[], float] = time.time
) -> Iterator[Finding]:
    """Yield whether a server could use the files that the settings name; nothing without any.

    Args:
        config: The settings.
        now: Seconds since 1970.
    """
    logging.disable(logging.CRITICAL)
    try:
        check_files(config)
    except StartupError as problem:
        yield error(SUBJECT, problem.message, "a server does not start with it")
        return
    finally:
        logging.disable(logging.NOTSET)
    certificates = _paths(config.tls_certificate, config.management_tls_certificate)
    for path in certificates:
        yield _validity(path, now())
    for path in _paths(config.tls_key, config.management_tls_key):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o007:
            yield warning(
                SUBJECT,
                f"{shown(str(path))} has mode {mode:04o}: every user can read the private key",
                f"chmod 600 {shown(str(path))}, for the user of the server",
            )


def _paths(*settings: str) -> list[Path]:
    """Return the files of settings, each once."""
    return [Path(name) for name in dict.fromkeys(word for text in settings for word in words(text))]


def _validity(path: Path, now: float) -> Finding:
    described = describe_certificate(path)
    name = shown(str(path))
    begins, ends = (ssl.cert_time_to_seconds(described[key]) for key in ("notBefore", "notAfter"))
    if now < begins:
        return error(SUBJECT, f"{name} is not valid yet", "look at the clock, or renew it")
    if now > ends:
        return error(SUBJECT, f"{name} has expired", _RENEW)
    text = f"{name} is valid for {(ends - now) / _DAY_SECONDS:.0f} more days"
    return (
        warning(SUBJECT, text, _RENEW)
        if ends - now < DAYS_MIN * _DAY_SECONDS
        else ok(SUBJECT, text)
    )
