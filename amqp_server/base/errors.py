"""Errors of the server as a program; errors for clients are in `protocol.errors`."""


class StartupError(Exception):
    """The server cannot start, for a reason that its operator can repair.

    The command line prints the message as one line and exits with code 2. Examples: a data
    directory that is locked or not writable, a data format that this version cannot read.

    Attributes:
        message: One line: what failed, with which path or address, and why.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TransientStartupError(StartupError):
    """The server cannot start now, and a later start may work: the exit code is 75."""


class AddressUnavailableError(TransientStartupError):
    """Another process listens on an address, or the network has not given it to this machine."""


class DirectoryInUseError(TransientStartupError):
    """Another process has the data directory: it may be a server that is about to end."""
