"""A channel through which a command does what clients of AMQP do, and gets the results.

It has the rights of the user for whom the command runs, and refuses with the texts that a client
of AMQP gets.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from amqp_server.broker.channel import Channel
from amqp_server.broker.inner_client import InnerClient
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.publishing.publish_answers import PublishAnswers
from amqp_server.broker.rights import AnswerAwaited
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.requesting_user import refusal, requesting_user, rights_in
from amqp_server.operations.applied import Applied
from amqp_server.protocol.errors import AmqpError
from appendlog import LogError
from metadata.errors import MetadataError
from offsets import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.client import Client
    from amqp_server.broker.rights import Rights
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.operations.applied import AppliedSteps, Operation
    from amqp_server.protocol.large_delivery import LargeMessage, Octets
    from amqp_server.protocol.methods import Method

ResultT = TypeVar("ResultT")


class Got(NamedTuple):
    """A message that `basic.get` has taken.

    Attributes:
        message: The message; its delivery tag is the channel's last one.
        redelivered: Whether it was delivered before.
        left: Messages that stay ready in the queue.
    """

    message: Messages | LargeMessage
    redelivered: bool
    left: int


class KeptAnswers(PublishAnswers):
    """What a command hears about the one message that it publishes.

    Attributes:
        is_returned: Whether the message has come back.
        confirmed: Ends with the confirm: whether the server has taken the message.
    """

    __slots__ = ("confirmed", "is_returned")

    def __init__(self, number: int, client: Client) -> None:
        super().__init__(number, client)
        self.is_returned = False
        self.confirmed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def confirm(self, delivery_tag: int, *, multiple: bool) -> None:
        """Keep that the message was taken."""
        if not self.confirmed.done():
            self.confirmed.set_result(True)

    def refuse(self, delivery_tag: int, *, multiple: bool) -> None:
        """Keep that the message was refused."""
        if not self.confirmed.done():
            self.confirmed.set_result(False)

    def give_back(self, messages: list[bytes]) -> None:
        """Keep that the message has come back."""
        self.is_returned = True


class CommandChannel(Channel):
    """A channel of one command. The event loop owns it.

    Args:
        name: Name of the command, for logs.
        vhost: Virtual host of the channel.
        broker: Broker of the server.
        rights: What the command may do there.

    Attributes:
        got: Message of the last `basic.get`; None if the queue had none.
        answers: What became of the first publish.
    """

    def __init__(self, name: str, vhost: VirtualHost, broker: Broker, rights: Rights) -> None:
        client = InnerClient(name, requesting_user.get(), rights)
        self.answers = KeptAnswers(1, client)
        super().__init__(1, client, vhost, broker)
        self.got: Got | None = None
        self._name = name

    async def carry_out(self, operation: Callable[[], Operation[ResultT]]) -> ResultT:
        """Carry out an operation; return its result when it is durable.

        Args:
            operation: Begins it with this channel.

        Raises:
            ControlError: It was refused, or the disk failed.
        """
        with refused():
            begun = operation()
            applied = begun if isinstance(begun, Applied) else await self._all_of(begun)
            if applied.durable is not None:
                await applied.durable
            return applied.result

    async def _all_of(self, steps: AppliedSteps[ResultT]) -> Applied[ResultT]:
        found: list[Applied[ResultT] | None] = []

        def and_keep() -> Iterator[None]:
            found.append((yield from steps))

        await self.take(and_keep())
        (applied,) = found
        assert applied is not None, "this channel is never closed"
        return applied

    async def wait(self, operation: Callable[[], Awaitable[None] | None]) -> None:
        """Do something; return when it is done.

        Args:
            operation: Begins it with this channel; returns what ends with it, or None.

        Raises:
            ControlError: It was refused, or the disk failed.
        """
        with refused():
            waiting = operation()
            if waiting is not None:
                await waiting

    async def take(self, steps: Iterator[None]) -> None:
        """Take all steps in the turns of this command."""
        await done_in_turns(self.broker.turn, self.client.task_queue, steps, self._name)

    def send(self, method: Method) -> None:
        """Do nothing: methods have no reader."""

    def reply(self, method: Method) -> None:
        """Do nothing: the result of a change is its reply, and notices have no reader."""

    def _publish_answers(self) -> KeptAnswers:
        """Return what keeps the answers instead of sending them."""
        return self.answers

    def encode_get_ok(
        self, message: Messages | LargeMessage, *, redelivered: bool, left: int
    ) -> Octets:
        """Keep a message instead of its frames."""
        self.got = Got(message, redelivered, left)
        return b""


def command_channel(name: str, broker: Broker, access: AccessControl, vhost: str) -> CommandChannel:
    """Return a channel for the present request.

    Args:
        name: Name of the command, for logs.
        broker: Broker of the server.
        access: Users and permissions.
        vhost: Name of the virtual host.

    Raises:
        ControlError: There is no such virtual host, or the user has no permission there.
    """
    host = broker.vhosts.get(vhost)
    if host is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    return CommandChannel(name, host, broker, rights_in(access, vhost))


@contextmanager
def refused() -> Iterator[None]:
    """Convert the errors of methods that the block raises.

    Raises:
        ControlError: A method was refused, or the disk failed.
    """
    try:
        yield
    except AnswerAwaited:
        # The command runs again when the answer is there.
        raise
    except AmqpError as error:
        raise refusal(error.reply_code, error.reply_text) from error
    except (MetadataError, LogError, OffsetsError) as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error
