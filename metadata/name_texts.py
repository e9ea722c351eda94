r"""Names as UTF-8 text: AMQP allows any octets, and Python holds those as surrogate escapes.

A text with surrogate escapes fails late: in an encoder, in Arrow, or inside the JVM.
"""


def escaped_text(name: str) -> str:
    r"""Return a name in which each octet that is not UTF-8 is written as an escape (`\udcff`)."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def replaced_text(name: str) -> str:
    """Return a name in which U+FFFD stands for octets that are not UTF-8: as rows have it."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
