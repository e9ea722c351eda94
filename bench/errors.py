"""What can go wrong in a benchmark: every one of them makes its figures worthless."""


class BenchError(Exception):
    """A benchmark cannot be run, or its figures do not count."""


class UnexpectedFrameError(BenchError):
    """The broker sent something else than what the protocol has in this place.

    Attributes:
        found: What came, in words; a close method with its reply text.
        expected: What should have come.
    """

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"the broker sent {found}, expected {expected}")
        self.found = found
        self.expected = expected


class BrokenRhythmError(BenchError):
    """A delivery is not the one that its place in the stream calls for: lost, repeated, reordered.

    Attributes:
        place: Number of the delivery in the stream, from 0.
        found: What the delivery says it is.
    """

    def __init__(self, place: int, found: str) -> None:
        super().__init__(f"delivery {place} of the stream is not message {place}: {found}")
        self.place = place
        self.found = found


class BrokerStartError(BenchError):
    """A broker did not start, or is not installed.

    Attributes:
        broker: Its name.
        reason: Why, with the end of its output.
    """

    def __init__(self, broker: str, reason: str) -> None:
        super().__init__(f"{broker} did not start: {reason}")
        self.broker = broker
        self.reason = reason
