"""One shovel at work: it connects both ends, moves messages, and starts again after a failure."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.field_values import table_of
from amqp_server.shovel.link.connection import connect
from amqp_server.shovel.link.errors import LinkClosed, LinkError
from amqp_server.shovel.link.pump import Pump, Route
from amqp_server.shovel.moved_properties import rewriter
from amqp_server.shovel.owner import why_refused_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.shovel.definition import ShovelDefinition, Side
    from amqp_server.shovel.link.amqp_uri import AmqpUri
    from amqp_server.shovel.link.channel import LinkChannel
    from amqp_server.shovel.link.connection import LinkConnection

logger = logging.getLogger("amqp_server.shovel.shovel")

REFUSALS_LOGGED_SECONDS: Final = 60.0
"""Time after which refused messages of a shovel are logged again."""
_NOT_FOUND: Final = 404


class Shovel:
    """Runs one shovel until it is cancelled or has moved what it should.

    Args:
        vhost: Virtual host of its parameter.
        name: Name of its parameter.
        definition: Definition of the shovel.
        local: Returns the address of this broker with a login, for a virtual host.
        node_name: Name of this broker, for `x-shovelled`.
        report: Is called with the members of its state that have changed.
        is_owned: Whether a user who is no administrator has set it.
    """

    def __init__(
        self,
        vhost: str,
        name: str,
        definition: ShovelDefinition,
        local: Callable[[AmqpUri], AmqpUri],
        node_name: str,
        report: Callable[[dict[str, Any]], None],
        *,
        is_owned: bool,
    ) -> None:
        self._is_owned = is_owned
        self._vhost = vhost
        self._name = name
        self._definition = definition
        self._local = local
        self._node_name = node_name
        self._report = report
        self._left = definition.limit
        self._counts_queue = definition.ends_at_queue_length
        self._logged_at = -REFUSALS_LOGGED_SECONDS
        self._moved_before = 0
        self._pump: Pump | None = None

    @property
    def moved(self) -> int:
        """Messages that it has moved since it was made."""
        return self._moved_before + (0 if self._pump is None else self._pump.moved)

    async def run(self) -> bool:
        """Move messages; return whether the shovel is done: its parameter is to be deleted.

        False: it has failed, and is not to be started again.
        """
        while True:
            self._report({"state": "starting"})
            try:
                await self._run_once()
            except (LinkError, AmqpError) as error:
                reason = str(error)
            else:
                return True
            # The state comes first: a client that reads the line and then looks finds that state.
            self._report({"state": "terminated", "reason": reason})
            logger.warning(
                "shovel failed vhost=%r name=%r error=%s", self._vhost, self._name, reason
            )
            seconds = self._definition.reconnect_seconds
            if not seconds:
                return False
            # Not all at the same moment after a broker of many shovels was restarted.
            await asyncio.sleep(seconds * random.uniform(0.9, 1.0))  # noqa: S311 - no secret

    async def _run_once(self) -> None:
        """Move messages until all that should be are moved.

        Raises:
            LinkError: Something else ended it.
        """
        definition = self._definition
        async with AsyncExitStack() as opened:
            source_link, source_uri = await self._connect(definition.source, opened)
            target_link, target_uri = await self._connect(definition.destination, opened)
            source = await source_link.open_channel()
            queue, ready = await _source_queue(source_link, source, definition.source)
            route = await _route(target_link, definition.destination)
            if self._counts_queue:
                self._left, self._counts_queue = ready, False
            self._pump = pump = Pump(
                source,
                await target_link.open_channel(),
                queue,
                route,
                ack_mode=definition.ack_mode,
                prefetch=definition.prefetch,
                consumer_arguments=table_of(definition.consumer_arguments),
                limit=self._left,
                rewrite=rewriter(definition, self._hop(source_uri, target_uri)),
                on_refused=self._note_refusal,
            )
            self._report({"state": "running", "src_uri": source_uri, "dest_uri": target_uri})
            try:
                await pump.run()
            finally:
                self._moved_before += pump.moved
                self._pump = None
                if self._left is not None:
                    self._left -= pump.moved

    async def _connect(self, side: Side, opened: AsyncExitStack) -> tuple[LinkConnection, str]:
        """Connect to the first address that works; return also how it is shown.

        Raises:
            LinkError: None works; the error is that of the last.
        """
        uris = list(side.uris)
        random.shuffle(uris)
        last: LinkError | None = None
        for uri in uris:
            is_ours = side.is_ours(uri)
            target = self._local(uri) if is_ours else uri
            check = partial(why_refused_from, target) if self._is_owned and not is_ours else None
            try:
                link = await connect(target, {"connection_name": f"Shovel {self._name}"}, check)
            except LinkError as error:
                last = LinkError(f"{uri.without_login}: {error}")
                continue
            opened.push_async_callback(link.close)
            return link, uri.without_login
        assert last is not None, "there is an address"
        raise last

    def _hop(self, source_uri: str, target_uri: str) -> dict[str, str]:
        """Return what `x-shovelled` says of this shovel."""
        source, destination = self._definition.source, self._definition.destination
        found = {
            "shovelled-by": self._node_name,
            "shovel-type": "dynamic",
            "shovel-name": self._name,
            "shovel-vhost": self._vhost,
            "src-uri": source_uri,
            "dest-uri": target_uri,
            "src-queue": source.queue,
            "src-exchange": source.exchange,
            "src-exchange-key": source.routing_key,
            "dest-queue": destination.queue,
            "dest-exchange": destination.exchange,
            "dest-exchange-key": destination.routing_key,
        }
        return {name: value for name, value in found.items() if value is not None}

    def _note_refusal(self, reason: str) -> None:
        """Log that messages stay where they are, once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= REFUSALS_LOGGED_SECONDS:
            self._logged_at = now
            logger.warning(
                "shovel cannot deliver vhost=%r name=%r reason=%s note=messages stay in their "
                "queue, and are tried again",
                self._vhost,
                self._name,
                reason,
            )


async def _source_queue(link: LinkConnection, channel: LinkChannel, side: Side) -> tuple[str, int]:
    """Return the queue to take messages from, and how many it has.

    Args:
        link: Connection to the source.
        channel: Channel that will consume.
        side: The source.

    Raises:
        LinkClosed: The broker refuses.
    """
    if side.queue is not None:
        ready = await _ensure_queue(link, side)
        return side.queue, ready
    # A queue of this connection, which gets what the exchange routes while it lives.
    declared = await channel.declare_queue("", is_durable=False, is_exclusive=True)
    assert side.exchange is not None, "a source has a queue or an exchange"
    await channel.bind_queue(declared.queue, side.exchange, side.routing_key or "")
    return declared.queue, declared.message_count


async def _route(link: LinkConnection, side: Side) -> Route:
    """Return where messages go.

    Raises:
        LinkClosed: The broker refuses to declare the queue.
    """
    if side.queue is not None:
        await _ensure_queue(link, side)
        return Route("", side.queue)
    return Route(side.exchange, side.routing_key)


async def _ensure_queue(link: LinkConnection, side: Side) -> int:
    """Declare the queue of a side if it is missing; return how many messages it has.

    Raises:
        LinkClosed: The broker refuses, or a predeclared queue is missing.
    """
    assert side.queue is not None, "the caller has looked"
    channel = await link.open_channel()
    try:
        declared = await channel.declare_queue(side.queue, is_passive=True)
    except LinkClosed as error:
        if error.code != _NOT_FOUND or side.is_predeclared:
            raise
        channel = await link.open_channel()
        arguments = table_of(side.queue_arguments)
        declared = await channel.declare_queue(side.queue, arguments)
    await channel.close()
    return declared.message_count
