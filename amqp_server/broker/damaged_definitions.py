"""Objects of a virtual host that the start could not recover, and why.

Their files stay unchanged for the operator and for a later start. So no object may take their
names: a new definition would replace the damaged one, and the messages would belong to no queue.
Messages that are routed to such a queue are refused by its placeholder (`placeholder`).
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
"""Stands for all names if a whole directory could not be read; no name encodes to it."""


@dataclass(slots=True)
class DamagedDefinitions:
    """Names that damaged definitions occupy.

    Attributes:
        queues: Reason why each queue could not be recovered, by `encode_name` of its name.
        exchanges: The same for exchanges.
        bindings: Definitions of bindings with a damaged end; they stay on the disk.
        damaged_bindings: Bindings whose definitions could not be read.
        make_placeholder: Creates the placeholder of a queue by name.
    """

    queues: dict[str, str] = field(default_factory=dict)
    exchanges: dict[str, str] = field(default_factory=dict)
    bindings: list[Document] = field(default_factory=list)
    damaged_bindings: DamagedBindings = field(default_factory=DamagedBindings)
    make_placeholder: Callable[[str], Queue] | None = None
    _binding_placeholder: Queue | None = None
    _alternate: Exchange | None = None
    _placeholders: dict[str, Queue] = field(default_factory=dict)
    _exchanges: dict[str, Exchange] = field(default_factory=dict)

    def is_queue(self, name: str) -> bool:
        """Return whether a queue with this name could not be recovered."""
        return bool(self.queues) and encode_name(name) in self.queues

    def may_be_queue(self, name: str) -> bool:
        """Return whether a queue with this name may be among the unreadable definitions."""
        return bool(self.queues) and (ANY_NAME in self.queues or self.is_queue(name))

    def is_exchange(self, name: str) -> bool:
        """Return whether an exchange with this name could not be recovered."""
        return bool(self.exchanges) and encode_name(name) in self.exchanges

    def may_be_exchange(self, name: str) -> bool:
        """Return whether an exchange with this name may be among the unreadable definitions."""
        return bool(self.exchanges) and (
            ANY_NAME in self.exchanges or encode_name(name) in self.exchanges
        )

    def refusing(self, name: str) -> Queue | None:
        """Return the placeholder for a missing queue; None if the queue never existed.

        All names that may lie in an unreadable directory share one placeholder, because clients may
        send to any number of names.
        """
        if not self.queues:
            return None
        if name in self._placeholders or self.is_queue(name):
            return self.placeholder(name)
        return self.placeholder(ANY_NAME) if ANY_NAME in self.queues else None

    def refusing_binding(self, exchange: str) -> Queue | None:
        """Return the placeholder for an exchange with a damaged binding; None without one.

        It refuses all of them, because it is unknown which ones the binding would have routed.
        """
        if not self.damaged_bindings.refuses(exchange):
            return None
        if self._binding_placeholder is None:
            assert self.make_placeholder is not None, "recovery must set it when it finds damage"
            self._binding_placeholder = self.make_placeholder("(damaged binding)")
        return self._binding_placeholder

    def placeholder(self, name: str) -> Queue:
        """Return the placeholder of a damaged queue; bindings to the queue lead to it."""
        placeholder = self._placeholders.get(name)
        if placeholder is None:
            assert self.make_placeholder is not None, "recovery must set it when it finds damage"
            placeholder = self._placeholders[name] = self.make_placeholder(name)
        return placeholder

    def refusing_exchange(self, name: str) -> Exchange | None:
        """Return a placeholder exchange for a damaged one; None if the exchange never existed.

        It routes all messages to a placeholder queue. The name must come from a definition, never
        from a client: a publish to a missing exchange is an error.
        """
        if not self.may_be_exchange(name):
            return None
        exchange = self._exchanges.get(name)
        if exchange is None:
            exchange = self._exchanges[name] = self._new_exchange(name)
        return exchange

    @property
    def refusing_alternate(self) -> Exchange:
        """Placeholder for the alternate exchange that a damaged policy may name."""
        if self._alternate is None:
            self._alternate = self._new_exchange("(alternate exchange of a damaged policy)")
        return self._alternate

    def _new_exchange(self, name: str) -> Exchange:
        assert self.make_placeholder is not None, "recovery must set it when it finds damage"
        exchange = Exchange(
            name, "fanout", durable=True, auto_delete=False, internal=True, arguments={}
        )
        exchange.bind(Binding(exchange, self.make_placeholder(f"(exchange {name})"), "", {}))
        return exchange

    def end_refusing_exchange(self, name: str) -> Exchange | None:
        """Remove and return the placeholder of an exchange, if there is one."""
        return self._exchanges.pop(name, None)

    def end_placeholder(self, name: str) -> Queue | None:
        """Remove, stop and return the placeholder of a queue, if there is one."""
        placeholder = self._placeholders.pop(name, None)
        if placeholder is not None:
            placeholder.stop()
        return placeholder

    def forget_queue(self, name: str) -> list[Document]:
        """Free the name of a deleted queue; return the definitions of its bindings."""
        del self.queues[encode_name(name)]
        ends = ("queue", name)
        return self._forget_bindings(lambda each: _destination(each) == ends)

    def forget_exchange(self, name: str) -> list[Document]:
        """Free the name of a deleted exchange; return the definitions of its bindings."""
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
