"""Reads the command line of a tool: options anywhere, the verb, its arguments."""

from __future__ import annotations

from cli.rabbitmq_tools.asking import ANSWER_SECONDS_MAX
from cli.rabbitmq_tools.failures import UsageError
from cli.rabbitmq_tools.output import FORMATTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

SHORT = {
    "-n": "node",
    "-q": "quiet",
    "-s": "silent",
    "-l": "longnames",
    "-t": "timeout",
    "-p": "vhost",
    "-h": "help",
    "-?": "help",
    "-m": "minimal",
    "-e": "enabled",
    "-u": "if-unused",
    "-P": "pid",
    "-E": "implicitly-enabled",
    "-v": "verbose",
    "-a": "all",
    "-d": "duration",
    "-N": "number",
}
SWITCHES = frozenset(
    [
        "quiet",
        "silent",
        "longnames",
        "help",
        "no-table-headers",
        "table-headers",
        "dry-run",
        "minimal",
        "enabled",
        "implicitly-enabled",
        "verbose",
        "offline",
        "online",
        "local",
        "global",
        "if-empty",
        "if-unused",
        "all",
        "skip-if-unchanged",
        "all-vhosts",
        "pre-hashed-password",
        "print-stacktrace",
        "disabled",
        "force",
        "unavailable",
        "by-source",
        "details",
        "disc",
        "errors-only",
        "idempotent",
        "list-commands",
        "ram",
        "tracking",
        "wait",
    ]
)
"""Options without a value."""
VALUES = frozenset(
    [
        "node",
        "timeout",
        "vhost",
        "formatter",
        "printer",
        "file",
        "script-name",
        "priority",
        "apply-to",
        "user",
        "format",
        "erlang-cookie",
        "aliases-file",
        "mnesia-dir",
        "rabbitmq-home",
        "output",
        "per-connection-delay",
        "limit",
        "reason",
        "address",
        "unit",
        "hostname",
        "description",
        "tags",
        "pid",
        "address-family",
        "cipher",
        "default-queue-type",
        "duration",
        "hash",
        "interval",
        "iterations",
        "number",
        "pattern",
        "queue-pattern",
        "queue-timeout",
        "sample-interval",
        "vhost-pattern",
        "within",
    ]
)
"""Options with a value."""
EVERYWHERE = frozenset(
    [
        "aliases-file",
        "dry-run",
        "erlang-cookie",
        "file",
        "formatter",
        "help",
        "longnames",
        "mnesia-dir",
        "no-table-headers",
        "node",
        "print-stacktrace",
        "printer",
        "quiet",
        "rabbitmq-home",
        "script-name",
        "silent",
        "table-headers",
        "timeout",
        "vhost",
    ]
)
"""Options that every verb takes."""


class CommandLine:
    """A command line.

    Args:
        words: What stands behind the name of the tool.

    Attributes:
        verb: The verb; None: nothing is asked for.
        arguments: What stands behind the verb, without options.
        options: Values of the options by name without dashes; those of switches are empty.
        bad: A line for each option that is unknown, or whose value is missing or not valid.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.options: dict[str, str] = {}
        self.arguments: list[str] = []
        self.verb: str | None = None
        self.bad: list[str] = []
        self._written: dict[str, str] = {}
        found: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                found += rest
            elif word.startswith("--"):
                name, sign, value = word[2:].partition("=")
                self._take(name, value if sign else None, word, rest)
            elif word in SHORT:
                self._take(SHORT[word], None, word, rest)
            elif word.startswith("-") and len(word) > 2 and word[:2] in SHORT and word[2] == "=":
                self._take(SHORT[word[:2]], word[3:], word, rest)
            elif word.startswith("-") and word != "-" and not _is_number(word[1:]):
                self.bad.append(f"{word} : ")
            else:
                found.append(word)
        if found:
            self.verb, self.arguments = found[0], found[1:]
        self._check()

    def refuse_others(self, known: Container[str]) -> None:
        """Check that the options are some of those that a verb has, with values that are valid.

        Raises:
            UsageError: One is not.
        """
        others = [
            f"{self._written[name]} : "
            for name in self.options
            if name not in EVERYWHERE and name not in known
        ]
        if self.bad or others:
            raise UsageError("Invalid options for this command:\n" + "\n".join(self.bad + others))

    @property
    def formatter(self) -> str:
        """Format of the result."""
        return self.options.get("formatter", "table")

    @property
    def is_quiet(self) -> bool:
        """Whether nothing but the result is written."""
        return "quiet" in self.options or "silent" in self.options

    @property
    def has_header(self) -> bool:
        """Whether tables begin with the names of their columns."""
        return not ("silent" in self.options or "no-table-headers" in self.options)

    @property
    def seconds_max(self) -> float:
        """Seconds that an answer may take."""
        given = self.options.get("timeout", "")
        return float(given) if given.isdecimal() and int(given) > 0 else ANSWER_SECONDS_MAX

    def _take(self, name: str, value: str | None, word: str, rest: Iterator[str]) -> None:
        given: str | None = None
        if name in SWITCHES:
            given = ""
        elif name in VALUES:
            given = next(rest, None) if value is None else value
        if given is None:
            self.bad.append(f"{word} : ")
        else:
            self.options[name] = given
            self._written[name] = word.partition("=")[0]

    def _check(self) -> None:
        for name, is_valid in (
            ("priority", _is_whole),
            ("limit", _is_whole),
            ("per-connection-delay", _is_whole),
            ("timeout", _is_timeout),
            ("formatter", FORMATTERS.__contains__),
        ):
            value = self.options.get(name)
            if value is not None and not is_valid(value):
                self.bad.append(f"{self._written[name]} : {value}")


def _is_number(text: str) -> bool:
    """Return whether a text is a number behind a minus sign, and so no option."""
    whole, point, fraction = text.partition(".")
    return whole.isdecimal() and (not point or fraction.isdecimal())


def _is_whole(value: str) -> bool:
    return value.removeprefix("-").isdecimal() and len(value) < 20


def _is_timeout(value: str) -> bool:
    return value == "infinity" or _is_whole(value)
