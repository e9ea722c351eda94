"""A stopwatch that a test moves: how long work takes is what the test says, on every machine."""


class Stopwatch:
    """Stands until it is moved; to be given to whatever measures work.

    Attributes:
        seconds: What it shows.
        others_seconds: How much of it other programs have had the processor.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.others_seconds = 0.0

    def __call__(self) -> float:
        """Return what it shows."""
        return self.seconds

    def processor_time(self) -> float:
        """Return what a stopwatch shows that stands while other programs have the processor."""
        return self.seconds - self.others_seconds
