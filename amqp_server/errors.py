"""Errors of the server as a program; what a client is told lives in `protocol.errors`."""


class StartupError(Exception):
    """The server cannot start, for a reason that its operator can mend.

    The command line prints the message as one line and exits with code 2: a port that is taken, a
    data directory that is locked or not writable, a data format that this version does not read.

    Attributes:
        message: One line: what could not be done, with what (path, address), and why.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
