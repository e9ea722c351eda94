"""Differences of this server with the definitions of the source, in sentences."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.declaring.queue_arguments import QUEUE_ARGUMENTS
from amqp_server.broker.policies.keys import KEYS
from amqp_server.broker.routing.matchers import MATCHERS
from cli.display import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.definitions_file.entry import Entry
    from cli.migrate.definitions import Definitions
    from cli.migrate.source_api import SourceQueue

NAMES_MAX: Final = 20
"""Names that one difference has; its count is of all."""
_NAMES_SHOWN: Final = 3
_REPLICATION: Final = frozenset(
    (
        "x-quorum-initial-group-size",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
        "x-queue-master-locator",
    )
)
_STORAGE: Final = frozenset(
    ("x-queue-mode", "x-queue-version", "x-max-in-memory-length", "x-max-in-memory-bytes")
)
_LIMIT: Final = (
    "length-limit",
    "queues with a length limit: what has no room here stays at the source",
)
_MOVING: Final = {
    "x-delivery-limit": (
        "delivery-limit",
        "the source counts a delivery of the messages in the window each time this command or the "
        "source is killed, and drops messages above x-delivery-limit",
    ),
    "x-expires": (
        "expires",
        "x-expires: this command keeps the queues alive here, until it ends",
    ),
    "x-max-length": _LIMIT,
    "x-max-length-bytes": _LIMIT,
    "x-message-ttl": (
        "lifetime",
        "x-message-ttl: the lifetime of a message begins again when it is moved",
    ),
}
"""Meaning of arguments for the move."""
_FEDERATION: Final = frozenset(("federation-upstream", "federation-upstream-set"))


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs.

    Attributes:
        kind: A word for programs.
        text: A sentence, without the names.
        names: The objects that it is about, at most `NAMES_MAX`.
        count: Number of all of them.
    """

    kind: str
    text: str
    names: tuple[str, ...]
    count: int

    @property
    def line(self) -> str:
        """The sentence with some of the names."""
        if not self.names:
            return self.text
        listed = ", ".join(shown(name) for name in self.names[:_NAMES_SHOWN])
        more = f" and {self.count - _NAMES_SHOWN} more" if self.count > _NAMES_SHOWN else ""
        return f"{self.text}: {listed}{more}"

    @property
    def as_json(self) -> dict[str, Any]:
        """The difference as JSON values."""
        return {
            "kind": self.kind,
            "text": self.text,
            "names": list(self.names),
            "count": self.count,
        }


def difference(kind: str, text: str, names: Iterable[str] = ()) -> Difference:
    """Return a difference that concerns these objects."""
    given = list(names)
    return Difference(kind, text, tuple(given[:NAMES_MAX]), len(given))


def differences(definitions: Definitions, queues: Iterable[SourceQueue]) -> list[Difference]:
    """Return what will differ, the same each time.

    Args:
        definitions: What is taken over.
        queues: Chosen queues of the source; empty if its API is not used.
    """
    # Names without their copies: two arguments of a queue may mean the same difference.
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for entry in definitions.entries:
        name = str(entry.fields.get("name"))
        for key in _of_entry(entry):
            found[key][name] = None
    for queue in queues:
        for key in _of_queue(queue):
            found[key][queue.name] = None
    made = [difference(kind, text, names) for (kind, text), names in sorted(found.items())]
    if definitions.shovels:
        text = (
            "shovels are not taken over, they would run here and at the source: set them when "
            "the source is off"
        )
        made.append(difference("shovel", text, definitions.shovels))
    made += [
        Difference("refused", f"not taken over: {line}", (), 1)
        for line in dict.fromkeys(definitions.refused)
    ]
    return made


def _of_entry(entry: Entry) -> Iterator[tuple[str, str]]:
    fields = entry.fields
    match entry.section:
        case "queues":
            yield from _of_defined_queue(fields)
        case "exchanges" if fields.get("type") not in MATCHERS:
            kind = fields.get("type")
            yield (
                "exchange-type",
                f"exchanges of type '{kind}' and their bindings do not exist here",
            )
        case "policies":
            yield from _of_policy(_object(fields.get("definition")))
        case "parameters" if str(fields.get("component")).startswith("federation"):
            yield "federation", "federation: the parameters are kept, and there are no links here"


def _of_defined_queue(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    arguments = _object(fields.get("arguments"))
    kind = arguments.get("x-queue-type")
    if kind == "quorum" or any(name in _REPLICATION for name in arguments):
        yield "replicas", "queues have one copy here, on one machine"
    for name in arguments:
        if name in _STORAGE:
            yield "storage-argument", f"the argument {name} has no effect here"
        elif name in _MOVING and (name != "x-max-length-bytes" or kind != "stream"):
            yield _MOVING[name]
        elif name.startswith("x-") and name not in QUEUE_ARGUMENTS:
            yield "unknown-argument", f"the argument {name} is kept, and unknown here"
    if fields.get("durable") is False:
        yield "transient", "queues that are not durable: their messages stay at the source"
    elif fields.get("auto_delete") is True:
        yield "auto-delete", "auto-delete queues: their messages stay at the source"
    elif kind == "stream":
        yield "stream", "streams are copied, and stay at the source; times of messages are new"


def _of_policy(definition: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in definition:
        known = KEYS.get(key)
        if key in _FEDERATION:
            yield "federation", "federation: the parameters are kept, and there are no links here"
        elif key.startswith("ha-"):
            yield "policy-replicas", "policies for mirrored queues: queues have one copy here"
        elif known is not None and not known.has_effect and key != "alternate-exchange":
            yield "policy-key", f"the key {key} of policies has no effect here"


def _of_queue(queue: SourceQueue) -> Iterator[tuple[str, str]]:
    if queue.is_exclusive:
        yield "exclusive", "exclusive queues end with their connections: they stay at the source"
    elif queue.consumers and queue.type != "stream":
        yield (
            "consumers",
            "queues have consumers at the source, which get messages as long as they are there",
        )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
