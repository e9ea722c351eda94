"""By which names clients may reach the server: the header Host.

A page of `evil.example` can let that name mean the address of this server after it was loaded (DNS
rebinding). For the browser the answers are then those of the page's own server, so the page reads
them. The name in Host gives it away. IP addresses and `localhost` cannot mean anything else, and
what is no browser may leave Host out.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from amqp_server.base.socket_names import is_loopback
from amqp_server.management.http.answers import ApiError
from amqp_server.management.http.host_names import parse_authority

GUEST: Final = "guest"
"""The one user who may log in from this machine only."""
_SHOWN_CHARACTERS_MAX: Final = 255
_WAY_ON: Final = "use localhost or an IP address, or add the name to --management-hosts"


class HostRule:
    """Refuses requests to names that this server does not have.

    Args:
        names: Names of this server, of `--management-hosts`: `rabbit.example`, `*.example`, or `*`
            for all. If there are any, no request may have another name; addresses and the names of
            the client's own machine are always good.
        guest_from_anywhere: Whether `guest` may log in from other machines anyway.
    """

    def __init__(self, names: tuple[str, ...], *, guest_from_anywhere: bool) -> None:
        self._is_any = "*" in names
        self._names = frozenset(name.lower().removesuffix(".") for name in names)
        self._suffixes = tuple(name[1:] for name in self._names if name.startswith("*."))
        self._guest_from_anywhere = guest_from_anywhere

    def check(self, headers: Mapping[str, str]) -> None:
        """Check the name in any request.

        Raises:
            ApiError: 421: there is a list of names, and it is not one of them.
        """
        if self._names and not self.knows(headers):
            raise _refused(headers, "is not a name in --management-hosts")

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Return whether the name in a request is one that no page can let mean this server."""
        text = headers.get("Host", "")
        if self._is_any or not text:
            return True
        found = parse_authority(text)
        if found is None:
            return False
        if found.is_address or found.is_this_machine or found.host in self._names:
            return True
        return found.host.endswith(self._suffixes) if self._suffixes else False

    def check_unknown(self, headers: Mapping[str, str]) -> None:
        """Check the name in a request without a login.

        Raises:
            ApiError: 421: a page could have made it mean this server.
        """
        if not self.knows(headers):
            raise _refused(headers, f"may be any server's name: log in, {_WAY_ON}")

    def check_user(self, user: str, headers: Mapping[str, str], peer_host: str) -> None:
        """Check the name in a request of a user: every page knows the password of `guest`.

        Raises:
            ApiError: 421: the user is `guest` from this machine, and a page could have made the
                name mean this server.
        """
        if user != GUEST or self._guest_from_anywhere or not is_loopback(peer_host):
            return
        if not self.knows(headers):
            reason = f"may be any server's name, so 'guest' cannot log in by it: {_WAY_ON}"
            raise _refused(headers, reason)

    def check_scrape(self, headers: Mapping[str, str], peer_host: str) -> None:
        """Check the name in a request for metrics, which know no login.

        Prometheus asks from other machines by any name of the broker, so that is not refused. On
        this machine it uses an address, `localhost`, or a name without a dot, such as that of a
        service of Docker Compose, which no site of the internet can have.

        Raises:
            ApiError: 421: the client is on this machine, and a page could have made the name mean
                this server.
        """
        self.check(headers)
        if not is_loopback(peer_host) or self.knows(headers):
            return
        found = parse_authority(headers["Host"])
        if found is None or "." in found.host:
            raise _refused(headers, f"may be any server's name: {_WAY_ON}")


def _refused(headers: Mapping[str, str], reason: str) -> ApiError:
    host = headers.get("Host", "")[:_SHOWN_CHARACTERS_MAX]
    # Octets that are no UTF-8 come as surrogates, which no answer can have.
    shown = host.encode("ascii", "backslashreplace").decode()
    text = f"The host '{shown}' of the request {reason}"
    return ApiError(HTTPStatus.MISDIRECTED_REQUEST, "misdirected_request", text)
