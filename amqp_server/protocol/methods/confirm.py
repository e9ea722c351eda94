"""Methods of class confirm (85): publisher confirms, a RabbitMQ extension."""

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.methods.codec import Bit, Method, method

_CLASS = ClassId.CONFIRM


@method("confirm.select", _CLASS, 10)
class ConfirmSelect(Method):
    """Client: request a confirm for each publish on the channel."""

    no_wait: Bit = False


@method("confirm.select-ok", _CLASS, 11)
class ConfirmSelectOk(Method):
    """Server: publishes are confirmed from here on."""


CONFIRM_METHODS: tuple[type[Method], ...] = (ConfirmSelect, ConfirmSelectOk)
