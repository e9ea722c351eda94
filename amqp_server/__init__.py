"""An AMQP 0-9-1 broker whose queues are logs on disk.

`amqp_server.server` is the asyncio shell, `amqp_server.broker` decides, `amqp_server.protocol`
reads and writes the wire without doing I/O. Nothing is imported here, so that a part can be used
without the rest; what programs of users ask for is imported when they do:

    from amqp_server import pick_shard, shards_of
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appendlog.sharding import pick_shard, shards_of

__all__ = ["__version__", "pick_shard", "shards_of"]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of any type, as the module's names are
    """Import one of the names that users ask for."""
    if name in ("pick_shard", "shards_of"):
        from appendlog import sharding

        return getattr(sharding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
