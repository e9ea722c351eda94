"""Errors of the server as a program; errors for clients are in `protocol.errors`."""


class StartupError(Exception):
    """The server cannot start, for a reason that its operator can repair.

    The command line prints the message as one line and exits with code 2. Examples: a port in use,
    a data directory that is locked or not writable, a data format that this version cannot read.

    Attributes:
        message: One line: what failed, with which path or address, and why.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
