"""An exchange: a name, a type and the bindings that leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers import MATCHERS

if TYPE_CHECKING:
    from amqp_server.broker.binding import Binding, BindingIdentity
    from amqp_server.protocol.tables import Table


class Exchange:
    """One exchange of one virtual host.

    Args:
        name: Its name; empty for the default exchange.
        kind: Its type, one of `MATCHERS`.
        durable: Whether it survives a restart of the server.
        auto_delete: Whether it goes when the last binding from it does.
        internal: Whether clients may not publish to it.
        arguments: The arguments it was declared with.

    Attributes:
        alternate: Name of the exchange that takes what this one cannot route, or None.
        bindings: The bindings that leave it.
        routes_version: Grows whenever a message that is published here might go elsewhere than
            before; the virtual host counts.

    Raises:
        PreconditionFailed: The type cannot have such arguments.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    ) -> None:
        self.name = name
        self.type = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.alternate = _alternate(arguments)
        self.bindings: dict[BindingIdentity, Binding] = {}
        self.next_binding_number = 0
        self.routes_version = 0
        self.matcher = MATCHERS[kind](arguments)

    def bind(self, binding: Binding) -> None:
        """Take in a binding that is not there yet."""
        self.bindings[binding.identity] = binding
        self.next_binding_number = max(self.next_binding_number, binding.number + 1)
        self.matcher.add(binding)

    def unbind(self, binding: Binding) -> None:
        """Forget a binding that is there."""
        del self.bindings[binding.identity]
        self.matcher.remove(binding)


def _alternate(arguments: Table) -> str | None:
    """Return the exchange that takes what this one cannot route, or None."""
    value = arguments.get("alternate-exchange")
    if value is None or not isinstance(value.value, bytes):
        return None
    # RabbitMQ looks for bindings of the alternate, and the default exchange has none.
    return value.value.decode("utf-8", "surrogateescape") or None
