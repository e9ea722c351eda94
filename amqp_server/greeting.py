"""The lines that a person reads when a server is ready: what runs, where, and how to log in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server import __version__
from amqp_server.base.config import words
from amqp_server.connections.client_listeners import TLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.base.config import ServerConfig
    from amqp_server.connections.client_listeners import Listening
    from amqp_server.start_and_stop import RunningServer

_EVERY_INTERFACE: Final = ("0.0.0.0", "::")  # noqa: S104 - what is not shown as an address
_GUEST: Final = "guest"


class Greeting(NamedTuple):
    """What a person wants to know of a server that has started; each is one line of text.

    Attributes:
        server: What runs, and the addresses for clients.
        data: Where the data is, and what is there.
        page: Where a browser finds the page, or why it does not.
        login: Who may log in.
    """

    server: str
    data: str
    page: str
    login: str

    @property
    def text(self) -> str:
        """Four lines."""
        return f"{self.server}\ndata: {self.data}\npage: {self.page}\nlog in: {self.login}"


def greeting(running: RunningServer, config: ServerConfig, *, is_new: bool) -> Greeting:
    """Return what to tell about a server that has started.

    Args:
        running: The server.
        config: Its settings.
        is_new: Whether the start has made the data directory.
    """
    queues = sum(len(vhost.queues) for vhost in running.server.broker.vhosts.values())
    held = "new" if is_new else f"{queues} queue{'' if queues == 1 else 's'}"
    lines = (
        f"amqp-server {__version__}: {_addresses(running.listening)}",
        f"{config.storage_path.absolute()} ({held})",
        _page(running),
        _login(running.server.access.users, config, is_new=is_new),
    )
    return Greeting(*(_printable(line) for line in lines))


def _printable(text: str) -> str:
    """Return a text without what could move a terminal's cursor: names may have any character."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _addresses(listening: Iterable[Listening]) -> str:
    """Return the addresses for AMQP clients, as they are given to them."""
    found = []
    for host, port, protocol in listening:
        scheme = "amqps" if protocol == TLS else "amqp"
        if host in _EVERY_INTERFACE:
            found.append(f"{scheme}://localhost:{port} (and this machine's other addresses)")
        else:
            found.append(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    return ", ".join(dict.fromkeys(found))


def _page(running: RunningServer) -> str:
    """Return where a browser finds the page, or why it does not."""
    status = None if running.management is None else running.management.status
    if status is None:
        return "none (--management-port 0)"
    if status["urls"]:
        return ", ".join(_for_a_browser(url) for url in status["urls"])
    for port in status["waiting"]:
        if port["kind"] == "http":
            return f"not yet, port {port['port']}: {port['reason']}"
    return "none (--management-port 0)"


def _for_a_browser(url: str) -> str:
    for host in ("//0.0.0.0:", "//[::]:"):
        url = url.replace(host, "//localhost:")
    return url


def _login(users: Iterable[str], config: ServerConfig, *, is_new: bool) -> str:
    """Return who may log in. A password is named only if it is the one that everybody knows."""
    backends = words(config.auth_backends)
    if "internal" not in backends:
        return f"as {' or '.join(backends)} decides (--auth-backends)"
    names = list(users)
    if not names:
        return "nobody can yet: amqp-server users add NAME --tags administrator"
    if _GUEST in names:
        place = "" if config.guest_from_anywhere else ", from this machine only"
        others = f"; or another of {len(names)} users" if len(names) > 1 else ""
        return f"user guest, {_guest_password(config, is_new=is_new)}{place}{others}"
    if len(names) == 1:
        return f"user {names[0]}"
    return f"one of {len(names)} users (amqp-server users list)"


def _guest_password(config: ServerConfig, *, is_new: bool) -> str:
    # Its hash is not checked: that is slow by design, and every start would have to wait.
    if not is_new or config.load_definitions:
        return "password guest unless it was changed"
    return "password guest" if config.default_password == _GUEST else "the password of the settings"
