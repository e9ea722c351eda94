"""Errors of the brokers that tests start."""


class BrokerStateError(RuntimeError):
    """A broker was used before its start or after its end, or started twice."""
