"""Errors of a benchmark; each of them makes its figures worthless."""


class BenchError(Exception):
    """A benchmark cannot run, or its figures do not count."""


class UnexpectedFrameError(BenchError):
    """The broker sent a frame that the protocol does not allow in this place.

    Attributes:
        found: Description of the frame; a close is described by its reply text.
        expected: Description of the expected frame.
    """

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"the broker sent {found}, expected {expected}")
        self.found = found
        self.expected = expected


class BrokenRhythmError(BenchError):
    """A delivery has the wrong message: one was lost or repeated, or the order changed.

    Attributes:
        place: Number of the delivery since the consumer's start, from 0.
        found: Description of the delivery.
    """

    def __init__(self, place: int, found: str) -> None:
        super().__init__(f"delivery {place} of the stream is not message {place}: {found}")
        self.place = place
        self.found = found


class BrokerStartError(BenchError):
    """A broker did not start, or is not installed.

    Attributes:
        broker: Name of the broker.
        reason: Reason, with the end of the broker's output.
    """

    def __init__(self, broker: str, reason: str) -> None:
        super().__init__(f"{broker} did not start: {reason}")
        self.broker = broker
        self.reason = reason
