"""Errors of the brokers that tests start."""


class BrokerStateError(RuntimeError):
    """A broker was used before its start or after its end, or started twice."""


class BrokerProcessError(RuntimeError):
    """The process of a broker did not start or stop; the message has its last log lines."""


class NoSuchQueueError(LookupError):
    """A virtual host has no queue with this name; the message names those that it has."""


class BrokerLeakWarning(UserWarning):
    """A test has left channels open or messages unacked; a filter of pytest makes it an error."""


class NoSuchConnectionError(LookupError):
    """No open connection matches; the message names those that there are."""


class FaultError(RuntimeError):
    """A fault cannot happen as it was asked for."""
