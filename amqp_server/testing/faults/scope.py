"""Which part of a broker a fault is limited to."""

from __future__ import annotations

from typing import NamedTuple


class Scope(NamedTuple):
    """All virtual hosts, or one.

    Attributes:
        vhost: Name of the virtual host; None means all.
    """

    vhost: str | None = None

    @property
    def is_everything(self) -> bool:
        """Whether all virtual hosts are meant."""
        return self.vhost is None

    def covers(self, vhost: str) -> bool:
        """Return whether a virtual host is meant."""
        return self.vhost is None or self.vhost == vhost

    @property
    def text(self) -> str:
        """The end of an error that says where something was looked for."""
        return "" if self.vhost is None else f" in vhost '{self.vhost}'"
