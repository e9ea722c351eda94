"""Exit codes of all commands; each command's help page lists those that it returns."""

from typing import Final

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
"""The command began and could not finish, or the server refused it."""
EXIT_REFUSED: Final = 2
"""Nothing was done: the call is wrong, or what it names cannot be used or reached."""
EXIT_NOTHING_NEW: Final = 3
"""Of exports and imports: there was nothing to do."""
EXIT_DATA_LOSS: Final = 4
"""Of exports: offsets are gone from the log."""
EXIT_CORRUPT: Final = 5
"""Of exports: the log or the output is damaged."""
EXIT_TRY_AGAIN: Final = 75
"""Of the server: another process has an address or the data directory now (EX_TEMPFAIL of C)."""
EXIT_INTERRUPTED: Final = 130
"""Ctrl-C or SIGTERM ended the command; shells give this code too (128 and the signal, 2)."""
EXIT_NO_READER: Final = 141
"""Standard output was closed; shells give this code too (128 and SIGPIPE, 13)."""
