"""What start-up could not bring back of a virtual host, and why.

Its files are left alone for people and for a later start, so nobody may take its name: a new
definition would replace the damaged one, and the messages would belong to no queue. What is
routed to such a queue is refused by its stand-in (`placeholder`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amqp_server.broker.binding import Binding
from amqp_server.broker.damaged_bindings import DamagedBindings
from amqp_server.broker.exchange import Exchange
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.queue import Queue
    from metadata.document import Document

ANY_NAME = ""
"""Stands for every name, when a whole directory was not readable; no name encodes to it."""


@dataclass(slots=True)
class DamagedDefinitions:
    """Names that are taken by what is damaged.

    Attributes:
        queues: Why each could not be brought back, by `encode_name` of its name.
        exchanges: The same of exchanges.
        bindings: Definitions of bindings without an end that may come back: they stay.
        damaged_bindings: Bindings whose definitions could not be read.
        make_placeholder: Makes what refuses messages in the place of the queue of a name.
    """

    queues: dict[str, str] = field(default_factory=dict)
    exchanges: dict[str, str] = field(default_factory=dict)
    bindings: list[Document] = field(default_factory=list)
    damaged_bindings: DamagedBindings = field(default_factory=DamagedBindings)
    make_placeholder: Callable[[str], Queue] | None = None
    _binding_placeholder: Queue | None = None
    _placeholders: dict[str, Queue] = field(default_factory=dict)
    _exchanges: dict[str, Exchange] = field(default_factory=dict)

    def is_queue(self, name: str) -> bool:
        """Return whether a queue of this name could not be brought back."""
        return bool(self.queues) and encode_name(name) in self.queues

    def may_be_queue(self, name: str) -> bool:
        """Return whether a queue of this name may be among what could not be read."""
        return bool(self.queues) and (ANY_NAME in self.queues or self.is_queue(name))

    def is_exchange(self, name: str) -> bool:
        """Return whether an exchange of this name could not be brought back."""
        return bool(self.exchanges) and encode_name(name) in self.exchanges

    def may_be_exchange(self, name: str) -> bool:
        """Return whether an exchange of this name may be among what could not be read."""
        return bool(self.exchanges) and (
            ANY_NAME in self.exchanges or encode_name(name) in self.exchanges
        )

    def refusing(self, name: str) -> Queue | None:
        """Return what refuses the messages for a queue that is not there; None: it never was.

        All names that may stand in a directory that was not readable share one: a client may
        send to any number of them.
        """
        if not self.queues:
            return None
        if name in self._placeholders or self.is_queue(name):
            return self.placeholder(name)
        return self.placeholder(ANY_NAME) if ANY_NAME in self.queues else None

    def refusing_binding(self, exchange: str) -> Queue | None:
        """Return what refuses the messages of an exchange that a damaged binding leaves, or None.

        Nobody knows which messages the binding would have taken, so all of them are refused.
        """
        if not self.damaged_bindings.refuses(exchange):
            return None
        if self._binding_placeholder is None:
            assert self.make_placeholder is not None, "recovery finds damage, and sets it"
            self._binding_placeholder = self.make_placeholder("(damaged binding)")
        return self._binding_placeholder

    def placeholder(self, name: str) -> Queue:
        """Return what refuses the messages of a damaged queue, also those of its bindings."""
        placeholder = self._placeholders.get(name)
        if placeholder is None:
            assert self.make_placeholder is not None, "recovery finds damage, and sets it"
            placeholder = self._placeholders[name] = self.make_placeholder(name)
        return placeholder

    def refusing_exchange(self, name: str) -> Exchange | None:
        """Return what refuses the messages for an exchange that is not there; None: it never was.

        It routes all of them to a stand-in. Whoever asks has the name from a definition, a
        publisher never: no client publishes to an exchange that is not there.
        """
        if not self.may_be_exchange(name):
            return None
        exchange = self._exchanges.get(name)
        if exchange is None:
            assert self.make_placeholder is not None, "recovery finds damage, and sets it"
            exchange = self._exchanges[name] = Exchange(
                name, "fanout", durable=True, auto_delete=False, internal=True, arguments={}
            )
            exchange.bind(Binding(exchange, self.make_placeholder(f"(exchange {name})"), "", {}))
        return exchange

    def end_refusing_exchange(self, name: str) -> Exchange | None:
        """Let an exchange take the name; return what stood there until now, if anything did."""
        return self._exchanges.pop(name, None)

    def end_placeholder(self, name: str) -> Queue | None:
        """Let a name be refused no longer; return what refused until now, if anything did."""
        placeholder = self._placeholders.pop(name, None)
        if placeholder is not None:
            placeholder.stop()
        return placeholder

    def forget_queue(self, name: str) -> list[Document]:
        """Free the name of a queue that is deleted; return the definitions of its bindings."""
        del self.queues[encode_name(name)]
        ends = ("queue", name)
        return self._forget_bindings(lambda each: _destination(each) == ends)

    def forget_exchange(self, name: str) -> list[Document]:
        """Free the name of an exchange that is deleted; return the definitions of its bindings."""
        del self.exchanges[encode_name(name)]
        ends = ("exchange", name)
        return self._forget_bindings(
            lambda each: each.body.get("source") == name or _destination(each) == ends
        )

    def _forget_bindings(self, is_gone: Callable[[Document], bool]) -> list[Document]:
        gone: list[Document] = []
        kept: list[Document] = []
        for each in self.bindings:
            (gone if is_gone(each) else kept).append(each)
        self.bindings = kept
        return gone


def _destination(binding: Document) -> tuple[object, object]:
    return binding.body.get("destination_kind"), binding.body.get("destination")
