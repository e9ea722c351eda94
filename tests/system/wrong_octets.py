"""Wrong octets for an open connection, and the answer to each.

The codes are RabbitMQ's wherever it has an answer, and the specification's where it only drops
the connection, waits for more, or takes what we bound (deep tables).

Source: AMQP 0-9-1 specification, sections 1.2 (reply codes), 2.2 and 4.2 (frames, content).
"""

import struct

from pamqp import frame
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.amqp_client import frame_octets

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
    return method(50, 10, fixed + struct.pack(">I", len(table)) + table)


def nested_table(depth: int) -> bytes:
    """Return the body of a table with a table in a table, `depth` times."""
    table = b""
    for _ in range(depth):
        table = b"\x01tF" + struct.pack(">I", len(table)) + table
    return table


def nested_array(depth: int) -> bytes:
    """Return the body of a table with an array in an array, `depth` times."""
    array = b""
    for _ in range(depth):
        array = b"A" + struct.pack(">I", len(array)) + array
    return b"\x01a" + array


FATAL = {
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
    "heartbeat_on_a_channel": (
        frame_octets(HEARTBEAT, 1, b""),
        505,
        "UNEXPECTED_FRAME - type 8, all octets = <<>>",
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
    "declare_cut_in_its_arguments": (
        method(50, 10, b"\0\0\x05ab"),
        501,
        "FRAME_ERROR - cannot decode <<0,0,5,97,98>>",
        (50, 10),
    ),
    "table_nested_1000_deep": (
        declare_with_table(nested_table(1000)),
        501,
        "FRAME_ERROR - cannot decode <<0,0,4,100,101,101,112,0,",
        (50, 10),
    ),
    "array_nested_1000_deep": (
        declare_with_table(nested_array(1000)),
        501,
        "FRAME_ERROR - cannot decode <<0,0,4,100,101,101,112,0,",
        (50, 10),
    ),
    "table_with_unknown_kind": (
        declare_with_table(b"\x01a?"),
        501,
        "FRAME_ERROR - cannot decode <<0,0,4,100,101,101,112,0,0,0,0,3,1,97,63>>",
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
    "body_longer_than_announced": (
        PUBLISH_FRAME + content_header(60, 3) + body(b"ab") + body(b"cd"),
        501,
        "FRAME_ERROR - content body frame exceeds remaining content size",
        (60, 40),
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
    "header_with_cut_properties": (
        PUBLISH_FRAME + content_header(60, 0, b"\x80\0\x20text"),
        502,
        "SYNTAX_ERROR - malformed content header",
        (60, 40),
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
    "unknown_class": (method(99, 1), 540, "NOT_IMPLEMENTED - unimplemented method", (99, 1)),
    "unknown_method": (method(60, 999), 540, "NOT_IMPLEMENTED - unimplemented method", (60, 999)),
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
    "arguments_missing_on_channel_0": (
        method(10, 40, channel=0),
        501,
        "FRAME_ERROR - cannot decode <<>>",
        (10, 40),
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


SOFT = {
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
    "message_larger_than_allowed": (
        PUBLISH_FRAME + content_header(60, 1 << 40) + body(b"x" * 1000) * 3,
        406,
        "PRECONDITION_FAILED - message size 1099511627776 is larger than configured max size "
        "134217728",
        (60, 40),
    ),
}
