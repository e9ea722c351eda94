"""Octets that break a rule on an open connection, and the reply to each.

RabbitMQ 3.10 gives the replies in `FATAL` and `SOFT`; the other tables are named in
docs/protocol-differences.md.

Source: AMQP 0-9-1 specification, sections 1.2 (reply codes), 2.2 and 4.2 (frames, content).
"""

import struct

from pamqp import frame
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm, Connection, Exchange, Queue

from tests.amqp_client import AmqpClient, describe, frame_octets

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
PUBLISH = Basic.Publish(0, "", "nobody")
PUBLISH_FRAME = frame.marshal(PUBLISH, 1)
FRAME_BYTES_MAX = 131_072


def content_header(class_id: int, body_bytes: int, properties: bytes = b"\0\0") -> bytes:
    """Return the frame of a content header."""
    return frame_octets(HEADER, 1, struct.pack(">HHQ", class_id, 0, body_bytes) + properties)


def body(octets: bytes, channel: int = 1) -> bytes:
    """Return a body frame."""
    return frame_octets(BODY, channel, octets)


def method(class_id: int, method_id: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    """Return a method frame with any ids and arguments."""
    return frame_octets(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def declare_with_table(table: bytes) -> bytes:
    """Return a queue.declare frame with these octets as the body of its arguments table."""
    fixed = struct.pack(">H", 0) + b"\x04deep" + b"\0"
    return method(50, 10, fixed + longstr(table))


def longstr(octets: bytes) -> bytes:
    """Return octets with their length in front, as in the body of a table."""
    return struct.pack(">I", len(octets)) + octets


def nested_table(depth: int) -> bytes:
    """Return the body of a table with a table in a table, `depth` times."""
    table = b""
    for _ in range(depth):
        table = b"\x01tF" + longstr(table)
    return table


def nested_array(depth: int) -> bytes:
    """Return the body of a table with an array in an array, `depth` times."""
    array = b""
    for _ in range(depth):
        array = b"A" + longstr(array)
    return b"\x01a" + array


def not_utf8(named: Frame) -> bytes:
    """Return the frame of a method whose short string `NAME` gets four other octets."""
    payload = named.index.to_bytes(4, "big") + named.marshal()
    return frame_octets(METHOD, 1, payload.replace(b"\x04NAME", b"\x04\xff\xfe\xfd\xfc"))


Wrong = tuple[bytes, int, str, tuple[int, int]]
"""Octets, and the reply: code, beginning of the text, and ids of the method that failed."""

FATAL: dict[str, Wrong] = {
    "garbage": (
        b"\xff" * 64,
        501,
        "FRAME_ERROR - type 255, all octets = <<>>: {frame_too_large,4294967295,131064}",
        (0, 0),
    ),
    "wrong_end_octet": (
        frame_octets(HEARTBEAT, 0, b"", end=0),
        501,
        "FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,0}",
        (0, 0),
    ),
    "frame_larger_than_negotiated": (
        struct.pack(">BHI", BODY, 1, FRAME_BYTES_MAX + 1),
        501,
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}",
        (0, 0),
    ),
    "frame_of_four_gigabytes": (
        struct.pack(">BHI", METHOD, 1, 0xFFFFFFFF),
        501,
        "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,131064}",
        (0, 0),
    ),
    "unknown_frame_type": (
        frame_octets(4, 1, b"abc"),
        501,
        'FRAME_ERROR - type 4, all octets = <<"abc">>: unknown_frame',
        (0, 0),
    ),
    "frame_type_7": (
        frame_octets(7, 1, b"abc"),
        501,
        'FRAME_ERROR - type 7, all octets = <<"abc">>: unknown_frame',
        (0, 0),
    ),
    "frame_type_9": (
        frame_octets(9, 1, b"abc"),
        501,
        'FRAME_ERROR - type 9, all octets = <<"abc">>: unknown_frame',
        (0, 0),
    ),
    "frame_type_255": (
        frame_octets(255, 1, b"abc"),
        501,
        'FRAME_ERROR - type 255, all octets = <<"abc">>: unknown_frame',
        (0, 0),
    ),
    "heartbeat_on_a_channel": (
        frame_octets(HEARTBEAT, 1, b""),
        505,
        "UNEXPECTED_FRAME - type 8, all octets = <<>>",
        (0, 0),
    ),
    "wrong_end_octet_of_a_method": (
        frame_octets(METHOD, 1, b"\x00\x14\x00\x0a\x00", end=0),
        501,
        "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {invalid_frame_end_marker,0}",
        (0, 0),
    ),
    "method_of_two_octets": (
        frame_octets(METHOD, 1, b"\0\x3c"),
        501,
        "FRAME_ERROR - type 1, all octets = <<0,60>>: unknown_frame",
        (0, 0),
    ),
    "method_of_no_octets": (
        frame_octets(METHOD, 1, b""),
        501,
        "FRAME_ERROR - type 1, all octets = <<>>: unknown_frame",
        (0, 0),
    ),
    "publish_cut_in_its_arguments": (
        method(60, 40, b"\0\0\xff"),
        501,
        "FRAME_ERROR - cannot decode <<0,0,255>>",
        (60, 40),
    ),
    "declare_without_arguments": (
        method(50, 10),
        501,
        "FRAME_ERROR - cannot decode <<>>",
        (50, 10),
    ),
    "declare_without_a_table": (
        method(50, 10, bytes(4)),
        501,
        "FRAME_ERROR - cannot decode <<0,0,0,0>>",
        (50, 10),
    ),
    "octets_after_an_empty_table": (
        method(50, 10, bytes(9) + b"\x01"),
        501,
        "FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0,0,0,1>>",
        (50, 10),
    ),
    "declare_cut_in_its_arguments": (
        method(50, 10, b"\0\0\x05ab"),
        501,
        "FRAME_ERROR - cannot decode <<0,0,5,97,98>>",
        (50, 10),
    ),
    "table_longer_than_its_frame": (
        method(50, 10, b"\0\0\x01q\0" + b"\x7f\xff\xff\xff"),
        501,
        "FRAME_ERROR - cannot decode <<0,0,1,113,0,127,255,255,255>>",
        (50, 10),
    ),
    "content_without_header": (
        PUBLISH_FRAME + body(b"abc"),
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got non content header frame instead",
        (60, 40),
    ),
    "method_instead_of_header": (
        PUBLISH_FRAME + frame.marshal(Basic.Qos(), 1),
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got non content header frame instead",
        (60, 40),
    ),
    "publish_instead_of_header": (
        PUBLISH_FRAME + PUBLISH_FRAME + content_header(60, 1) + body(b"a"),
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got non content header frame instead",
        (60, 40),
    ),
    "second_publish_instead_of_header": (
        PUBLISH_FRAME + PUBLISH_FRAME,
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got non content header frame instead",
        (60, 40),
    ),
    "publish_instead_of_body": (
        PUBLISH_FRAME + content_header(60, 3) + PUBLISH_FRAME,
        505,
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        (60, 40),
    ),
    "method_of_a_publish_on_channel_0": (
        frame.marshal(PUBLISH, 0),
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        (60, 40),
    ),
    "method_instead_of_body": (
        PUBLISH_FRAME + content_header(60, 3) + frame.marshal(Basic.Qos(), 1),
        505,
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        (60, 40),
    ),
    "ack_instead_of_body": (
        PUBLISH_FRAME + content_header(60, 3) + frame.marshal(Basic.Ack(1), 1),
        505,
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        (60, 40),
    ),
    "header_instead_of_body": (
        PUBLISH_FRAME + content_header(60, 3) + content_header(60, 3),
        505,
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        (60, 40),
    ),
    "header_of_wrong_class": (
        PUBLISH_FRAME + content_header(10, 3),
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead",
        (60, 40),
    ),
    "header_of_another_wrong_class": (
        PUBLISH_FRAME + content_header(50, 0),
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        (60, 40),
    ),
    "body_after_an_empty_message": (
        PUBLISH_FRAME + content_header(60, 0) + body(b"x"),
        505,
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        (0, 0),
    ),
    "header_without_publish": (
        content_header(60, 3),
        505,
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        (0, 0),
    ),
    "body_without_publish": (
        body(b"abc"),
        505,
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        (0, 0),
    ),
    "body_for_unknown_channel": (
        body(b"abc", channel=7),
        505,
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        (0, 0),
    ),
    "body_on_channel_0": (
        body(b"abc", channel=0),
        505,
        'UNEXPECTED_FRAME - type 3, all octets = <<"abc">>',
        (0, 0),
    ),
    "header_of_four_octets": (
        PUBLISH_FRAME + frame_octets(HEADER, 1, b"\0\x3c\0\0"),
        501,
        "FRAME_ERROR - type 2, all octets = <<0,60,0,0>>: unknown_frame",
        (0, 0),
    ),
    "method_on_unopened_channel": (
        frame.marshal(Queue.Declare(queue="q"), 2),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        (50, 10),
    ),
    "qos_on_unopened_channel": (
        frame.marshal(Basic.Qos(), 2),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        (60, 10),
    ),
    "select_on_unopened_channel": (
        frame.marshal(Confirm.Select(), 2),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        (85, 10),
    ),
    "close_ok_on_unopened_channel": (
        frame.marshal(Channel.CloseOk(), 2),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        (20, 41),
    ),
    "publish_on_unopened_channel": (
        frame.marshal(PUBLISH, 2) + frame_octets(HEADER, 2, struct.pack(">HHQH", 60, 0, 0, 0)),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        (60, 40),
    ),
    "channel_opened_twice": (
        frame.marshal(Channel.Open(), 1),
        504,
        "CHANNEL_ERROR - second 'channel.open' seen",
        (20, 10),
    ),
    "publish_on_channel_0": (
        frame.marshal(PUBLISH, 0) + frame_octets(HEADER, 0, struct.pack(">HHQH", 60, 0, 0, 0)),
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        (60, 40),
    ),
    "ack_on_channel_0": (
        frame.marshal(Basic.Ack(1), 0),
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        (60, 80),
    ),
    "declare_on_channel_0": (
        frame.marshal(Queue.Declare(queue=""), 0),
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        (50, 10),
    ),
    "channel_open_on_channel_0": (
        frame.marshal(Channel.Open(), 0),
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        (20, 10),
    ),
    "connection_method_on_a_channel": (
        frame.marshal(Connection.Open("/"), 1),
        503,
        "COMMAND_INVALID - unimplemented method",
        (10, 40),
    ),
    "connection_opened_twice": (
        frame.marshal(Connection.Open("/"), 0),
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        (10, 40),
    ),
    "method_for_clients_only": (
        frame.marshal(Queue.DeclareOk("q", 0, 0), 1),
        503,
        "COMMAND_INVALID - unimplemented method",
        (50, 11),
    ),
    "heartbeat_with_a_payload": (
        frame_octets(HEARTBEAT, 0, b"abc"),
        501,
        'FRAME_ERROR - type 8, all octets = <<"abc">>: unknown_frame',
        (0, 0),
    ),
    "unknown_frame_type_with_a_long_payload": (
        frame_octets(0, 1, bytes(17)),
        501,
        "FRAME_ERROR - type 0, first 16 octets = <<0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0>>: "
        "unknown_frame",
        (0, 0),
    ),
    "long_header_on_channel_0": (
        frame_octets(HEADER, 0, b"\x00\x3c" + bytes(20)),
        505,
        "UNEXPECTED_FRAME - type 2, first 16 octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0,0,0>>",
        (0, 0),
    ),
    "long_body_on_channel_0": (
        body(bytes(22), channel=0),
        505,
        "UNEXPECTED_FRAME - type 3, first 16 octets = <<0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0>>",
        (0, 0),
    ),
    "header_on_channel_0": (
        frame_octets(HEADER, 0, struct.pack(">HHQH", 60, 0, 1, 0)),
        505,
        "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,1,0,0>>",
        (0, 0),
    ),
    "header_with_a_weight": (
        PUBLISH_FRAME + frame_octets(HEADER, 1, struct.pack(">HHQH", 60, 1, 0, 0)),
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got non content header frame instead",
        (60, 40),
    ),
    "octets_after_the_arguments": (
        method(20, 10, b"\0zzz", channel=2),
        501,
        "FRAME_ERROR - cannot decode <<0,122,122,122>>",
        (20, 10),
    ),
    "exchange_name_that_is_not_utf8": (
        not_utf8(Exchange.Declare(exchange="NAME")),
        501,
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
        (0, 0),
    ),
    "bound_queue_that_is_not_utf8": (
        not_utf8(Queue.Bind(queue="NAME", exchange="amq.direct")),
        501,
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
        (0, 0),
    ),
    "consumer_tag_that_is_not_utf8": (
        not_utf8(Basic.Consume(queue="q", consumer_tag="NAME")),
        501,
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
        (0, 0),
    ),
    "queue_name_that_is_not_utf8": (
        method(50, 10, b"\0\0\x02\xff\xfe\0\0\0\0\0"),
        501,
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
        (0, 0),
    ),
    "routing_key_of_a_binding_that_is_not_utf8": (
        method(50, 20, b"\0\0\x01q\x09amq.topic\x01\xff\0\0\0\0\0"),
        501,
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
        (0, 0),
    ),
    "virtual_host_that_is_not_utf8": (
        method(10, 40, b"\x02\xff\xfe\0\0", channel=0),
        501,
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
        (10, 40),
    ),
    "ack_on_a_channel_that_is_not_open": (
        frame.marshal(Basic.Ack(1), 7),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        (60, 80),
    ),
    "close_of_a_channel_that_is_not_open": (
        frame.marshal(Channel.Close(200, "x", 0, 0), 7),
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        (20, 40),
    ),
    "tune_ok_too_late": (
        frame.marshal(Connection.TuneOk(), 0),
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        (10, 31),
    ),
    "blocked_from_a_client": (
        frame.marshal(Connection.Blocked("x"), 0),
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        (10, 60),
    ),
    "connection_closed_on_a_channel": (
        frame.marshal(Connection.Close(200, "x", 0, 0), 1),
        503,
        "COMMAND_INVALID - unimplemented method",
        (10, 50),
    ),
    "immediate": (
        frame.marshal(Basic.Publish(0, "", "q", immediate=True), 1) + content_header(60, 0),
        540,
        "NOT_IMPLEMENTED - immediate=true",
        (60, 40),
    ),
    "prefetch_size": (
        frame.marshal(Basic.Qos(prefetch_size=1), 1),
        540,
        "NOT_IMPLEMENTED - prefetch_size!=0 (1)",
        (60, 10),
    ),
    "recover_without_requeue": (
        frame.marshal(Basic.Recover(requeue=False), 1),
        540,
        "NOT_IMPLEMENTED - requeue=false",
        (60, 110),
    ),
    "flow_off": (
        frame.marshal(Channel.Flow(active=False), 1),
        540,
        "NOT_IMPLEMENTED - active=false",
        (20, 20),
    ),
}


NOT_IMPLEMENTED = "NOT_IMPLEMENTED - unimplemented method"
UNKNOWN_METHODS: dict[str, Wrong] = {
    f"{class_id}.{method_id}": (
        method(class_id, method_id, channel=0 if class_id == 10 else 1),
        540,
        NOT_IMPLEMENTED,
        (class_id, method_id),
    )
    for class_id, method_id in ((10, 99), (20, 99), (60, 99), (60, 999), (99, 1), (99, 10))
}
UNKNOWN_KINDS: dict[str, Wrong] = {
    "in_a_table": (
        declare_with_table(b"\x01a?"),
        501,
        "FRAME_ERROR - cannot decode <<0,0,4,100,101,101,112,0,0,0,0,3,1,97,63>>",
        (50, 10),
    ),
}
TOO_DEEP: dict[str, Wrong] = {
    name: (
        declare_with_table(table),
        501,
        "FRAME_ERROR - cannot decode <<0,0,4,100,101,101,112,0,",
        (50, 10),
    )
    for name, table in (
        ("70_tables", nested_table(70)),
        ("1000_tables", nested_table(1000)),
        ("1000_arrays", nested_array(1000)),
    )
}
UNREADABLE_HEADERS: dict[str, Wrong] = {
    name: (
        PUBLISH_FRAME + content_header(60, 2, b"\x20\x00" + longstr(table)) + body(b"ab"),
        502,
        f"SYNTAX_ERROR - malformed content header: header '{key}' cannot be decoded",
        (60, 40),
    )
    for name, key, table in (
        ("unknown_kind", "k", b"\x01kZ\x00"),
        ("unknown_kind_behind_others", "k", b"\x02okt\x01\x01kZ\x00"),
        ("unknown_kind_in_a_table", "t", b"\x01tF" + longstr(b"\x01kZ")),
        ("unknown_kind_in_an_array", "a", b"\x01aA" + longstr(b"t\x01Z")),
        ("length_beyond_the_end", "s", b"\x01sS\x00\x00\x00\x09text"),
        (
            "length_beyond_its_table",
            "t",
            b"\x01tF" + longstr(b"\x01sS\0\0\0\x02a") + b"\x01bV",
        ),
        ("half_a_number", "i", b"\x01iI\x00\x00"),
        ("key_without_a_value", "key", b"\x03key"),
        ("half_a_key", "ke", b"\x03ke"),
    )
}
DEEP_HEADERS: dict[str, Wrong] = {
    name: (
        PUBLISH_FRAME + content_header(60, 0, b"\x20\x00" + longstr(table)),
        502,
        f"SYNTAX_ERROR - malformed content header: header '{key}' cannot be decoded",
        (60, 40),
    )
    for name, key, table in (
        ("65_levels_of_tables", "t", nested_table(64)),
        ("65_levels_of_arrays", "a", nested_array(64)),
        ("5000_arrays", "a", nested_array(5000)),
    )
}
CUT_PROPERTIES: dict[str, Wrong] = {
    name: (
        PUBLISH_FRAME + content_header(60, 0, properties),
        502,
        "SYNTAX_ERROR - malformed content header",
        (60, 40),
    )
    for name, properties in (
        ("half_a_string", b"\x80\x00\x20ab"),
        ("no_string", b"\x80\x00"),
        ("more_flags", b"\x00\x01\x00\x00"),
        ("too_many", b"\x00\x00\x00"),
    )
}
NO_ARGUMENTS: dict[str, Wrong] = {
    "connection_open": (
        method(10, 40, channel=0),
        501,
        "FRAME_ERROR - cannot decode <<>>",
        (10, 40),
    ),
}
TOO_LONG: dict[str, Wrong] = {
    name: (
        PUBLISH_FRAME + content_header(60, 3) + b"".join(map(body, parts)),
        501,
        "FRAME_ERROR - content body frame exceeds remaining content size",
        (60, 40),
    )
    for name, parts in (("one_frame", [b"four"]), ("two_frames", [b"ab", b"cd"]))
}
ALL_FATAL: dict[str, Wrong] = {
    f"{kind}_{name}": wrong
    for kind, table in (
        ("as_rabbitmq", FATAL),
        ("unknown_method", UNKNOWN_METHODS),
        ("unknown_kind", UNKNOWN_KINDS),
        ("too_deep", TOO_DEEP),
        ("cut_properties", CUT_PROPERTIES),
        ("no_arguments", NO_ARGUMENTS),
        ("too_long", TOO_LONG),
    )
    for name, wrong in table.items()
}

SOFT: dict[str, Wrong] = {
    "publish_to_missing_exchange": (
        frame.marshal(Basic.Publish(0, "nowhere", "k"), 1) + content_header(60, 1) + body(b"a"),
        404,
        "NOT_FOUND - no exchange 'nowhere' in vhost '/'",
        (60, 40),
    ),
    "unknown_delivery_tag": (
        frame.marshal(Basic.Ack(7), 1),
        406,
        "PRECONDITION_FAILED - unknown delivery tag 7",
        (60, 80),
    ),
    "unknown_delivery_tag_nacked": (
        frame.marshal(Basic.Nack(7), 1),
        406,
        "PRECONDITION_FAILED - unknown delivery tag 7",
        (60, 120),
    ),
    "unknown_delivery_tag_rejected": (
        frame.marshal(Basic.Reject(7), 1),
        406,
        "PRECONDITION_FAILED - unknown delivery tag 7",
        (60, 90),
    ),
    "missing_queue": (
        frame.marshal(Basic.Consume(queue="missing"), 1),
        404,
        "NOT_FOUND - no queue 'missing' in vhost '/'",
        (60, 20),
    ),
}


def expect_closed(client: AmqpClient, wrong: Wrong) -> None:
    """Send wrong octets, and return when the connection was closed as it should be."""
    octets, code, text, failed = wrong
    client.send_raw(octets)
    close = client.expect(Connection.Close, 0)
    assert (close.reply_code, close.class_id, close.method_id) == (code, *failed), describe(close)
    # Texts of 255 octets end with dots.
    found = close.reply_text.removesuffix("...")
    assert found.startswith(text), describe(close)
    assert found == text or len(close.reply_text) == 255, describe(close)
    client.send(Connection.CloseOk(), 0)
    client.expect_end()


def expect_channel_closed(client: AmqpClient, wrong: Wrong) -> None:
    """Send wrong octets, and return when channel 1 was closed as it should be; close-ok is due."""
    octets, code, text, failed = wrong
    client.send_raw(octets)
    close = client.expect(Channel.Close)
    found = (close.reply_code, close.reply_text, close.class_id, close.method_id)
    assert found == (code, text.replace("vhost '/'", f"vhost '{client.vhost}'"), *failed)
