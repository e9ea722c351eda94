"""The marker `amqp_fault` of pytest: a fault that lasts as long as a test.

The plugin imports this module in every run, so it imports nothing of the broker.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from amqp_server.testing.faults.faults import Faults

NAME: Final = "amqp_fault"
DESCRIPTION: Final = (
    f"{NAME}(name, ...): a fault of `amqp_broker` that lasts as long as the test, such as "
    '"refuse_logins"; other arguments are those of the method'
)
LASTING: Final = (
    "block_publishers",
    "chaos",
    "full_disk",
    "hold_confirms",
    "nack_confirms",
    "refuse_logins",
)
"""Faults that last and need no queue: at the start of a test there is none."""


class Mark(Protocol):
    """A marker as it was written, `pytest.Mark`."""

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Keyword arguments."""


@contextmanager
def marked_faults(marks: Iterable[Mark], faults: Faults) -> Iterator[None]:
    """Begin the faults that the markers of a test name; end them with the block.

    Args:
        marks: Markers, the one of the outermost scope first.
        faults: Faults of the virtual host of the test.

    Raises:
        ValueError: A marker names no fault that lasts.
    """
    with ExitStack() as lasting:
        for mark in marks:
            name = mark.args[0] if mark.args else None
            if name not in LASTING:
                names = ", ".join(f"'{each}'" for each in LASTING)
                raise ValueError(
                    f"marker {NAME}({name!r}): use one of {names}; others are methods of "
                    "`amqp_broker.faults`"
                )
            lasting.enter_context(getattr(faults, name)(*mark.args[1:], **mark.kwargs))
        yield
