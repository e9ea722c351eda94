"""What start-up could not bring back of a virtual host, and why.

Its files are left alone for people and for a later start, so nobody may take its name: a new
definition would replace the damaged one, and the messages would be removed as nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metadata.names import encode_name

if TYPE_CHECKING:
    from metadata.document import Document

ANY_NAME = ""
"""Stands for every name, when a whole directory was not readable; no name encodes to it."""


@dataclass(slots=True)
class Damaged:
    """Names that are taken by what is damaged.

    Attributes:
        queues: Why each could not be brought back, by `encode_name` of its name.
        exchanges: The same of exchanges.
        bindings: Definitions of bindings without an end that may come back: they stay.
    """

    queues: dict[str, str] = field(default_factory=dict)
    exchanges: dict[str, str] = field(default_factory=dict)
    bindings: list[Document] = field(default_factory=list)

    def is_queue(self, name: str) -> bool:
        """Return whether a queue of this name could not be brought back."""
        return bool(self.queues) and encode_name(name) in self.queues

    def may_be_queue(self, name: str) -> bool:
        """Return whether a queue of this name may be among what could not be read."""
        return bool(self.queues) and (ANY_NAME in self.queues or self.is_queue(name))

    def may_be_exchange(self, name: str) -> bool:
        """Return whether an exchange of this name may be among what could not be read."""
        return bool(self.exchanges) and (
            ANY_NAME in self.exchanges or encode_name(name) in self.exchanges
        )

    def forget_queue(self, name: str) -> list[Document]:
        """Free the name of a queue that is deleted; return the definitions of its bindings."""
        del self.queues[encode_name(name)]
        ends = ("queue", name)
        gone = [
            each
            for each in self.bindings
            if (each.body.get("destination_kind"), each.body.get("destination")) == ends
        ]
        self.bindings = [each for each in self.bindings if each not in gone]
        return gone
