"""Methods of class exchange (40): declare, delete and exchange-to-exchange bindings."""

from dataclasses import field

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.methods.codec import Bit, FieldTable, Method, Short, ShortStr, method

_CLASS = ClassId.EXCHANGE


@method("exchange.declare", _CLASS, 10)
class ExchangeDeclare(Method):
    """Client: create the exchange, or check it when passive."""

    ticket: Short = 0
    exchange: ShortStr = ""
    type: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method("exchange.declare-ok", _CLASS, 11)
class ExchangeDeclareOk(Method):
    """Server: the exchange exists."""


@method("exchange.delete", _CLASS, 20)
class ExchangeDelete(Method):
    """Client: delete the exchange."""

    ticket: Short = 0
    exchange: ShortStr = ""
    if_unused: Bit = False
    no_wait: Bit = False


@method("exchange.delete-ok", _CLASS, 21)
class ExchangeDeleteOk(Method):
    """Server: the exchange does not exist any more."""


@method("exchange.bind", _CLASS, 30)
class ExchangeBind(Method):
    """Client: route from `source` to `destination` (RabbitMQ extension)."""

    ticket: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method("exchange.bind-ok", _CLASS, 31)
class ExchangeBindOk(Method):
    """Server: the binding exists (RabbitMQ extension)."""


@method("exchange.unbind", _CLASS, 40)
class ExchangeUnbind(Method):
    """Client: remove a binding between exchanges (RabbitMQ extension)."""

    ticket: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method("exchange.unbind-ok", _CLASS, 51)
class ExchangeUnbindOk(Method):
    """Server: the binding does not exist any more (RabbitMQ extension); its id is 51, not 41."""


EXCHANGE_METHODS: tuple[type[Method], ...] = (
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
)
