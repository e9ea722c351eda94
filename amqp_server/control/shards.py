"""The commands `shards.create`, `shards.list`, `shards.show` and `shards.delete`."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.admin.views.values import text_json
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.queues import queue_stats
from amqp_server.control.registry import Command
from amqp_server.operations.sharding.changes import create_shards, delete_shards, find_shards
from amqp_server.operations.sharding.errors import (
    NoSuchShardsError,
    ShardArgumentError,
    ShardClashError,
    ShardLimitError,
)
from amqp_server.operations.sharding.shard_set import ShardSet, bound_queues, messages_of, shard_set
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.field_values import table_of
from amqp_server.protocol.tables import encode_table
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import TypeVar

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.tables import Table
    from amqp_server.upkeep.checkpointer import Checkpointer

    ResultT = TypeVar("ResultT")
    Spawn = Callable[[Coroutine[None, None, None]], None]
    """Runs a coroutine in the background; the server awaits it when it stops."""

logger = logging.getLogger("amqp_server.control.shards")


async def create(
    broker: Broker,
    spawn: Spawn,
    exchange: str,
    shards: int,
    vhost: str,
    arguments: dict[str, Any],
) -> dict[str, object]:
    """Create an exchange with its shards, or the missing ones; return when it is durable."""
    host = _vhost(broker, vhost)
    wanted = ShardSet(exchange, shards)
    with _refusals():
        made = await _finished(spawn, create_shards(broker, host, wanted, _table(arguments)))
    logger.info(
        "shards created vhost=%s exchange=%s shards=%d queues_made=%d bindings_made=%d",
        vhost,
        exchange,
        shards,
        made.queues,
        made.bindings,
    )
    return {
        "shards": shards,
        "exchange_created": made.exchange,
        "queues_created": made.queues,
        "bindings_created": made.bindings,
    }


async def list_all(broker: Broker, vhost: str) -> list[dict[str, object]]:
    """Return all sets of shards by virtual host and exchange, each with sums over its shards."""
    hosts = [_vhost(broker, vhost)] if vhost else list(broker.vhosts.values())
    found = [
        (host, exchange, shards)
        for host in hosts
        for exchange in host.exchanges.values()
        if (shards := shard_set(exchange)) is not None
    ]
    found.sort(key=lambda each: (each[0].name, each[1].name))
    return [_summary(host, exchange, shards) for host, exchange, shards in found]


async def show(
    broker: Broker, checkpointer: Checkpointer, exchange: str, vhost: str
) -> dict[str, object]:
    """Return a set of shards with each queue's statistics; `stats` is null for a missing one."""
    host = _vhost(broker, vhost)
    with _refusals():
        shards = find_shards(host, exchange)
    bound = bound_queues(host.exchanges[exchange])
    rows = [
        {
            "shard": shard,
            "queue": shards.queue_name(shard),
            "is_bound": shards.queue_name(shard) in bound,
            "messages": None if queue is None else messages_of(queue),
            "stats": None if queue is None else queue_stats(checkpointer, queue),
        }
        for shard, queue in enumerate(shards.queues(host))
    ]
    return {**_summary(host, host.exchanges[exchange], shards), "queues": rows}


async def delete(
    broker: Broker, spawn: Spawn, exchange: str, vhost: str, *, if_empty: bool
) -> dict[str, object]:
    """Delete an exchange with its shards; return when no part of it can come back."""
    host = _vhost(broker, vhost)
    with _refusals():
        deleted, messages = await _finished(
            spawn, delete_shards(broker, host, exchange, if_empty=if_empty)
        )
    logger.info(
        "shards deleted vhost=%s exchange=%s shards=%d messages=%d",
        vhost,
        exchange,
        deleted.count,
        messages,
    )
    return {"shards": deleted.count, "messages": messages}


def _summary(host: VirtualHost, exchange: Exchange, shards: ShardSet) -> dict[str, object]:
    queues = [queue for queue in shards.queues(host) if queue is not None]
    bound = bound_queues(exchange)
    return {
        **text_json("vhost", host.name),
        **text_json("exchange", exchange.name),
        "shards": shards.count,
        "is_complete": len(queues) == shards.count == len(bound),
        "types": sorted({queue.settings.type.value for queue in queues}),
        "messages": sum(messages_of(queue) for queue in queues),
        "consumers": sum(queue.consumer_count for queue in queues),
    }


def _vhost(broker: Broker, name: str) -> VirtualHost:
    host = broker.vhosts.get(name)
    if host is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{name}' does not exist")
    return host


def _table(arguments: dict[str, Any]) -> Table:
    """Return queue arguments as clients send them.

    Raises:
        ControlError: A value has a type that no queue argument has, or the table is too long.
    """
    for name, value in arguments.items():
        if type(value) not in (str, int, bool):
            reason = f"argument '{name}' must be text, a whole number, true or false"
            raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    try:
        table = table_of(arguments)
        encode_table(table)
    except (AmqpError, OverflowError, ValueError) as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, f"arguments: {error}") from error
    return table


async def _finished(spawn: Spawn, change: Coroutine[None, None, ResultT]) -> ResultT:
    """Return the result of a change; it continues even if the caller is cancelled."""
    task = asyncio.ensure_future(change)
    spawn(_end_of(task))
    return await asyncio.shield(task)


async def _end_of(task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])


@contextmanager
def _refusals() -> Iterator[None]:
    """Convert the errors of a change that the block raises.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    try:
        yield
    except ShardArgumentError as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
    except ShardClashError as error:
        raise ControlError(ErrorKind.ALREADY_EXISTS, str(error)) from error
    except ShardLimitError as error:
        raise ControlError(ErrorKind.LIMIT_REACHED, str(error)) from error
    except NoSuchShardsError as error:
        raise ControlError(ErrorKind.NOT_FOUND, str(error)) from error
    except AmqpError as error:
        raise ControlError(ErrorKind.FAILED, error.reply_text) from error
    except MetadataError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error


def shards_commands(
    broker: Broker, checkpointer: Checkpointer, spawn: Spawn
) -> tuple[Command, ...]:
    """Return the commands `shards.*` of a server with these parts."""
    return (
        Command(
            "shards.create",
            partial(create, broker, spawn),
            {"exchange": str, "shards": int, "vhost": str, "arguments": dict},
        ),
        Command("shards.list", partial(list_all, broker), {"vhost": str}),
        Command(
            "shards.show", partial(show, broker, checkpointer), {"exchange": str, "vhost": str}
        ),
        Command(
            "shards.delete",
            partial(delete, broker, spawn),
            {"exchange": str, "vhost": str, "if_empty": bool},
        ),
    )
