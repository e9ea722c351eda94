"""Events: what the scanner has read, one object for each frame, run or row.

The scanner makes them, and each layer above handles them by their class. A frame that is cut off,
or a publish that is incomplete, is no event: the scanner reads it again with the next octets.

The build compiles this file as `_events_c` with the types of its `.pxd`, because a client may send
one publish in each read: making an event must cost no more than making a tuple. `framing.py`
chooses, and exports the classes of the build in use. An event keeps no part of the read buffer.

Source: AMQP 0-9-1 specification, sections 2.3.5 (frames) and 4.2.6 (content).
"""

from __future__ import annotations

from typing import TypeAlias

from amqp_server.protocol.methods import BasicAck, BasicPublish

_METHOD_ID_BYTES = 4


class ScannedEvent:
    """What all events have: they are compared, and shown in tests, by their fields.

    Each class lists its fields in `__match_args__`, `channel` first: the number of the channel on
    which the frames came, 0 to 65535.
    """

    __match_args__ = ()
    __slots__ = ()

    @property
    def identity(self) -> bytes:
        """Class id and method id, as in `Method.identity`; those of content are its method's.

        Empty if there is no method.
        """
        return b""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and fields_of(other) == fields_of(self)

    def __repr__(self) -> str:
        values = ", ".join([repr(value) for value in fields_of(self)])
        return f"{type(self).__name__}({values})"


class PublishRun(ScannedEvent):
    """Whole publishes, one or more, with the same `basic.publish` frame.

    Attributes:
        channel: Channel number.
        method_payload: Payload of that frame.
        messages: The messages, in the order in which they were published, as a queue stores them.
            The scanner may append to the list until it returns.
        checked_flags: Flags of the properties that the broker must look at (`checked_flags_of`),
            the same for all messages.
        shared_flags: Flags octet of a message without `HAS_HEADERS`, the same for all messages:
            those with and without headers go together.
    """

    __match_args__ = ("channel", "method_payload", "messages", "checked_flags", "shared_flags")
    __slots__ = __match_args__
    identity = BasicPublish.identity

    def __init__(
        self,
        channel: int,
        method_payload: bytes,
        messages: list[bytes],
        checked_flags: int,
        shared_flags: int,
    ) -> None:
        self.channel = channel
        self.method_payload = method_payload
        self.messages = messages
        self.checked_flags = checked_flags
        self.shared_flags = shared_flags


class PublishRow(ScannedEvent):
    """Whole publishes, two or more, whose neighbours have different `basic.publish` frames.

    Attributes:
        channel: Channel number.
        method_payloads: Payload of the `basic.publish` frame of each message. At most `REPEATS_MAX`
            neighbours have the same one, which is then one object.
        messages: The messages, as in `PublishRun`; as many as `method_payloads`.
        checked_flags: As in `PublishRun`.
        shared_flags: As in `PublishRun`.
    """

    __match_args__ = ("channel", "method_payloads", "messages", "checked_flags", "shared_flags")
    __slots__ = __match_args__
    identity = BasicPublish.identity

    def __init__(
        self,
        channel: int,
        method_payloads: list[bytes],
        messages: list[bytes],
        checked_flags: int,
        shared_flags: int,
    ) -> None:
        self.channel = channel
        self.method_payloads = method_payloads
        self.messages = messages
        self.checked_flags = checked_flags
        self.shared_flags = shared_flags


class AckRun(ScannedEvent):
    """Acknowledgements (`basic.ack`), one or more.

    Attributes:
        channel: Channel number.
        ranges: Flat pairs of delivery tags: first, last (inclusive), and so on. First 0 means all
            up to the last (`multiple`). The scanner may append to the list until it returns.
    """

    __match_args__ = ("channel", "ranges")
    __slots__ = __match_args__
    identity = BasicAck.identity

    def __init__(self, channel: int, ranges: list[int]) -> None:
        self.channel = channel
        self.ranges = ranges


class MethodFrame(ScannedEvent):
    """Any other method, or a `basic.publish` whose content follows in frames of its own.

    Attributes:
        channel: Channel number.
        payload: Class id and method id, then the arguments; nothing of it is checked.
    """

    __match_args__ = ("channel", "payload")
    __slots__ = __match_args__

    def __init__(self, channel: int, payload: bytes) -> None:
        self.channel = channel
        self.payload = payload

    @property
    def identity(self) -> bytes:
        """Class id and method id, as in `Method.identity`."""
        return self.payload[:_METHOD_ID_BYTES]


class ContentHeader(ScannedEvent):
    """A content header that belongs to no run.

    Attributes:
        channel: Channel number.
        payload: Class id, weight, length of the body, property flags and properties; nothing of it
            is checked.
    """

    __match_args__ = ("channel", "payload")
    __slots__ = __match_args__
    identity = BasicPublish.identity

    def __init__(self, channel: int, payload: bytes) -> None:
        self.channel = channel
        self.payload = payload


class ContentBody(ScannedEvent):
    """A content body frame that belongs to no run.

    Attributes:
        channel: Channel number.
        payload: Octets of the body, or of a part of it.
    """

    __match_args__ = ("channel", "payload")
    __slots__ = __match_args__
    identity = BasicPublish.identity

    def __init__(self, channel: int, payload: bytes) -> None:
        self.channel = channel
        self.payload = payload


class HeartbeatFrame(ScannedEvent):
    """A heartbeat.

    Attributes:
        channel: Channel number; only 0 is allowed.
    """

    __match_args__ = ("channel",)
    __slots__ = __match_args__

    def __init__(self, channel: int) -> None:
        self.channel = channel


class BrokenFrame(ScannedEvent):
    """Octets that are no frame (a frame error, 501): the last event of a connection.

    Attributes:
        channel: Channel number that the octets name.
        text: What is wrong, in RabbitMQ's words.
    """

    __match_args__ = ("channel", "text")
    __slots__ = __match_args__

    def __init__(self, channel: int, text: str) -> None:
        self.channel = channel
        self.text = text


Event: TypeAlias = (
    PublishRun
    | PublishRow
    | AckRun
    | MethodFrame
    | ContentHeader
    | ContentBody
    | HeartbeatFrame
    | BrokenFrame
)
"""What the scanner reports; each class says what its fields are."""


def fields_of(event: ScannedEvent) -> tuple[object, ...]:
    """Return the values of an event's fields, in the order of its `__match_args__`."""
    names: tuple[str, ...] = event.__match_args__
    return tuple([getattr(event, name) for name in names])


# The scanner makes the most frequent events with these. They take C's numbers; a call of the class
# would make Python's from them, and then C's again.


def publish_run(
    channel: int,
    method_payload: bytes,
    messages: list[bytes],
    checked_flags: int,
    shared_flags: int,
) -> PublishRun:
    """Return a new `PublishRun` with these fields."""
    event = PublishRun.__new__(PublishRun)
    event.channel = channel
    event.method_payload = method_payload
    event.messages = messages
    event.checked_flags = checked_flags
    event.shared_flags = shared_flags
    return event


def ack_run(channel: int, ranges: list[int]) -> AckRun:
    """Return a new `AckRun` with these fields."""
    event = AckRun.__new__(AckRun)
    event.channel = channel
    event.ranges = ranges
    return event
