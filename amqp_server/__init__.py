"""An AMQP 0-9-1 broker whose queues are logs on disk.

`amqp_server.start_and_stop` runs the asyncio shell, `amqp_server.broker` makes all decisions,
`amqp_server.protocol` encodes and decodes the wire format without I/O. This module imports nothing,
so that each part can be used without the others. The names that programs use are imported at their
first use:

    from amqp_server import pick_shard, shards_of
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appendlog.sharding import pick_shard, shards_of

__all__ = ["__version__", "pick_shard", "shards_of"]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of any type, as the module's names are
    """Import a public name at its first use."""
    if name in ("pick_shard", "shards_of"):
        from appendlog import sharding

        return getattr(sharding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
