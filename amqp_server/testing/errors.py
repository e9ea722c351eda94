"""Errors of the brokers that tests start."""


class BrokerStateError(RuntimeError):
    """A broker was used before its start or after its end, or started twice."""


class BrokerProcessError(RuntimeError):
    """The process of a broker did not start or stop; the message has its last log lines."""
