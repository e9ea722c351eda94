"""Values of a type that an argument cannot have, and the names that RabbitMQ gives their types."""

from collections.abc import Iterable
from typing import Final

from tests.amqp_client import AmqpClient
from tests.conformance.queues import expect_refused
from tests.conformance.typed_fields import Typed, send_declaration

NOT_INTEGERS: Final = (
    (Typed("S", "5"), "longstr"),
    (Typed("d", 5.0), "double"),
    (Typed("f", 5.0), "float"),
    (Typed("t", True), "bool"),
    (Typed("V", None), "void"),
    (Typed("A", []), "array"),
    (Typed("F", {}), "table"),
    (Typed("T", 5), "timestamp"),
)
NOT_STRINGS: Final = ((Typed("b", 5), "byte"), (Typed("l", 5), "long"), *NOT_INTEGERS[1:])


def expect_types_refused(
    client: AmqpClient,
    queue: str,
    argument: str,
    queue_type: str,
    values: Iterable[tuple[Typed, str]],
    fault: str,
) -> None:
    """Return when each of the values was refused.

    Args:
        client: With channel 1 open.
        queue: Name that no queue has.
        argument: Name of the argument.
        queue_type: Type of the queue.
        values: Values, each with the name of its type.
        fault: The end of the reply text; `{}` stands for the name of the type.
    """
    for value, word in values:
        send_declaration(client, queue, {"x-queue-type": Typed("S", queue_type), argument: value})
        said = f"invalid arg '{argument}' for queue '{queue}' in vhost '/': {fault.format(word)}"
        expect_refused(client, said)
