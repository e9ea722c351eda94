"""Methods of class access (30): the access tickets of AMQP 0-9, kept for old clients."""

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.methods.codec import Bit, Method, Short, ShortStr, method

_CLASS = ClassId.ACCESS


@method("access.request", _CLASS, 10)
class AccessRequest(Method):
    """Client: ask for an access ticket."""

    realm: ShortStr = "/data"
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


@method("access.request-ok", _CLASS, 11)
class AccessRequestOk(Method):
    """Server: grant a ticket; every ticket is 1 and means nothing."""

    ticket: Short = 1


ACCESS_METHODS: tuple[type[Method], ...] = (AccessRequest, AccessRequestOk)
