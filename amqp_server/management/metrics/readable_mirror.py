"""What the pages read: rows of the broker's objects, with RabbitMQ's names of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Fields = "Mapping[str, Any]"


class Row(Protocol):
    """One object of the broker."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """Its values, named as in RabbitMQ's HTTP API, and our own beside them."""
        ...


class ReadableExports(Protocol):
    """What exports have done; only read here."""

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The queues of all outputs."""
        ...

    async def refresh(self) -> None:
        """Return when the rows are at most half a minute old."""
        ...


class PairRow(Protocol):
    """The counters of one pair."""

    @property
    def ends(self) -> tuple[str | tuple[str, str], str | tuple[str, str]]:
        """Name of the channel; virtual host and name of the exchange or the queue."""
        ...

    @property
    def stats(self) -> Mapping[str, int]:
        """The counters that are not 0."""
        ...


class ReadableMirror(Protocol):
    """The state of the broker, as the mirror keeps it; only read here."""

    @property
    def vhosts(self) -> Mapping[str, Row]:
        """Virtual hosts by name."""
        ...

    @property
    def queues(self) -> Mapping[tuple[str, str], Row]:
        """Queues by virtual host and name."""
        ...

    @property
    def exchanges(self) -> Mapping[tuple[str, str], Row]:
        """Exchanges by virtual host and name."""
        ...

    @property
    def connections(self) -> Mapping[str, Row]:
        """Connections by name."""
        ...

    @property
    def channels(self) -> Mapping[str, Row]:
        """Channels by name."""
        ...

    @property
    def pairs(self) -> Mapping[str, Iterable[PairRow]]:
        """What channels, exchanges and queues did with each other, by kind of pairs."""
        ...

    @property
    def node(self) -> Row:
        """The broker's process and machine."""
        ...

    @property
    def overview(self) -> Row:
        """Totals of the broker."""
        ...

    @property
    def exports(self) -> ReadableExports:
        """What exports have done."""
        ...

    async def refresh(self) -> None:
        """Return when the rows show a state of the broker after the call, or one a second old."""
        ...
