"""Makes the back ends that the settings name. Their imports are loaded only then."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, cast

from amqp_server.access.backends.backend import ENTRY_POINTS
from amqp_server.access.backends.chain import OutsideBackend
from amqp_server.access.backends.login import INTERNAL
from amqp_server.base.config import words
from amqp_server.base.errors import StartupError

if TYPE_CHECKING:
    from amqp_server.access.backends.backend import Backend, Deciding
    from amqp_server.base.config import ServerConfig

logger = logging.getLogger("amqp_server.access.backends.loading")

HTTP: Final = "http"
OAUTH2: Final = "oauth2"
_METHODS: Final = ("authenticate", "may_open_vhost", "may_use", "may_use_topic")


def load_backends(config: ServerConfig) -> dict[str, OutsideBackend]:
    """Return the back ends beside the server's own users, by name; none of them has begun.

    Raises:
        StartupError: There is none of a name, or it cannot be used.
    """
    return {
        name: OutsideBackend(name, _load(name, config), config.auth_timeout_seconds)
        for name in words(config.auth_backends)
        if name != INTERNAL
    }


def _load(name: str, config: ServerConfig) -> Backend | Deciding:
    # Imported here: few servers need them, and the libraries take half a second to load.
    if name == HTTP:
        from amqp_server.access.backends.http_backend import HttpBackend

        try:
            return HttpBackend(config)
        except OSError as error:
            raise StartupError(f"auth-http-ca {config.auth_http_ca}: {error}") from error
    if name == OAUTH2:
        try:
            from amqp_server.access.backends.oauth2.token_backend import TokenBackend
        except ImportError as error:
            raise StartupError(
                f"auth-backends: {OAUTH2} needs a library that is not installed ({error.name}): "
                "pip install 'amqp-server[oauth2]'"
            ) from error
        return TokenBackend(config)
    return _load_own(name)


def _load_own(name: str) -> Backend:
    """Return the back end of an entry point.

    Raises:
        StartupError: There is none of this name, or it cannot be used.
    """
    found = entry_points(group=ENTRY_POINTS)
    if name not in found.names:
        known = ", ".join([INTERNAL, HTTP, OAUTH2, *sorted(found.names)])
        raise StartupError(
            f"auth-backends: there is no back end '{name}': known are {known}; one's own is an "
            f"entry point of the group {ENTRY_POINTS}"
        )
    try:
        backend = found[name].load()()
    except Exception as error:
        logger.exception("authentication back end not loaded backend=%s", name)
        raise StartupError(
            f"auth-backends: {name} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    missing = [method for method in _METHODS if not callable(getattr(backend, method, None))]
    if missing:
        raise StartupError(f"auth-backends: {name} has no method {', '.join(missing)}")
    logger.info("authentication back end loaded backend=%s from=%s", name, found[name].value)
    return cast("Backend", backend)
