"""Plan of an import: each entry is checked before anything is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_server.definitions_file.import_report import ImportReport, Outcome
from amqp_server.definitions_file.json_arguments import is_same

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.parameters import ParameterOwner
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges

    ImportStep = Callable[[ImportChanges], None]
    """One change; raises DefinitionsError or AmqpError if a client was in the way."""

Key = tuple[str, ...]
"""Identifies an object in a section: its virtual host and its name, for example."""


@dataclass(frozen=True, slots=True)
class PlannedVhost:
    """A virtual host that exists when the import is done.

    Attributes:
        name: Its name.
        existing: The virtual host if it exists already.
    """

    name: str
    existing: VirtualHost | None


class ImportPlan:
    """Collects the steps of an import, and the names that later entries may use.

    Args:
        vhosts: The virtual hosts that exist, by name.
        only_vhost: Virtual host of a file that names none; None for a file of a whole cluster.
        rabbit_version: Version of RabbitMQ that wrote the file; empty if it does not say.
        importer: The user who imports; None: an administrator.

    Attributes:
        report: What becomes of each entry.
        steps: The changes in their order.
        only_vhost: As given.
        rabbit_version: As given.
        importer: As given.
        new_vhosts: Names of the virtual hosts that are created.
        new_exchanges: Exchanges that are created, by virtual host and name.
        known_bindings: What identifies each existing binding that has arguments.
        checked: Values whose check takes long and has succeeded.
    """

    def __init__(
        self,
        vhosts: dict[str, VirtualHost],
        only_vhost: str | None,
        rabbit_version: str,
        importer: ParameterOwner | None = None,
    ) -> None:
        self.report = ImportReport()
        self.steps: list[ImportStep] = []
        self.only_vhost = only_vhost
        self.rabbit_version = rabbit_version
        self.importer = importer
        self.new_vhosts: list[str] = []
        self.new_exchanges: dict[tuple[str, str], Exchange] = {}
        self.known_bindings: set[Key] = set()
        self.checked: set[object] = set()
        self._vhosts = vhosts
        self._seen: dict[tuple[str, Key], Entry] = {}
        self._skipped: set[tuple[str, Key]] = set()
        self._new_counts: dict[tuple[str, str], int] = {}

    def vhost_of(self, entry: Entry) -> PlannedVhost:
        """Return the virtual host that an entry names.

        Raises:
            DefinitionsError: There is none, neither on the server nor in the file.
        """
        name = self.only_vhost
        if name is None:
            name = entry.text("vhost")
        existing = self._vhosts.get(name)
        if existing is None and not self.has_new("vhosts", (name,)):
            raise entry.error(f"no vhost '{name}'")
        return PlannedVhost(name, existing)

    def is_first(self, entry: Entry, key: Key, *, stays: bool = False) -> bool:
        """Note which object an entry describes; return whether no earlier one does.

        Args:
            entry: The entry.
            key: What identifies the object in its section.
            stays: Whether such an object stays as it is when it exists: then the first entry
                counts.

        Raises:
            DefinitionsError: An earlier entry gives the same object other values.
        """
        earlier = self._seen.setdefault((entry.section, key), entry)
        if earlier is entry:
            return True
        if not is_same(earlier.fields, entry.fields):
            difference = f"{_names(key)} has other values in {earlier.place}"
            if not stays:
                raise entry.error(difference)
            self.different(entry, f"{difference}, which counts")
            return False
        self.report.note(entry.section, Outcome.EQUAL)
        return False

    def has_new(self, section: str, key: Key) -> bool:
        """Return whether an entry of the file describes such an object, and is not skipped."""
        return (section, key) in self._seen and (section, key) not in self._skipped

    def is_skipped(self, section: str, key: Key) -> bool:
        """Return whether an entry describes such an object, and is skipped."""
        return (section, key) in self._skipped

    def skip(self, entry: Entry, key: Key, reason: str) -> None:
        """Leave an entry out, with a warning."""
        self._skipped.add((entry.section, key))
        self.report.note(entry.section, Outcome.SKIPPED, f"{entry.place}: {reason}")

    def create(self, entry: Entry, step: ImportStep) -> None:
        """Plan the creation of an object that is missing."""
        self.report.note(entry.section, Outcome.CREATED)
        self.steps.append(step)

    def change(self, entry: Entry, step: ImportStep) -> None:
        """Plan the replacement of an object that is there with other values."""
        self.report.note(entry.section, Outcome.CHANGED)
        self.steps.append(step)

    def equal(self, entry: Entry) -> None:
        """Note that an object is there with the same values."""
        self.report.note(entry.section, Outcome.EQUAL)

    def different(self, entry: Entry, difference: str) -> None:
        """Note that an object is there with other values, and stays as it is."""
        self.report.note(entry.section, Outcome.DIFFERENT, f"{entry.place}: {difference}")

    def count_new(self, entry: Entry, place: str, existing: int, most: int) -> None:
        """Count an object more, against a limit.

        Args:
            entry: Its entry.
            place: What the limit is for: `vhost 'x'`.
            existing: Objects that are there already.
            most: Most objects that are allowed.

        Raises:
            DefinitionsError: There would be too many.
        """
        count = self._new_counts.get((entry.section, place), 0) + 1
        self._new_counts[entry.section, place] = count
        if existing + count > most:
            raise entry.error(f"{place} would have more than {most} {entry.section}, the limit")


def _names(key: Key) -> str:
    return " ".join(f"'{part}'" for part in key)
