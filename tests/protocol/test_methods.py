"""Methods on the wire."""

import contextlib
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_server.protocol.errors import AmqpError, FieldSyntaxError, NotImplementedAmqp
from amqp_server.protocol.methods import (
    METHODS,
    AccessRequest,
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionStart,
    ConnectionTune,
    ExchangeDeclare,
    ExchangeUnbindOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    ack_frame,
    decode_method,
    method_frame,
)
from amqp_server.protocol.tables import FieldValue
from tests.protocol.strategies import methods, methods_of

# There are 66 methods: a share of the profile's examples for each will do.
EXAMPLES_PER_METHOD = max(settings().max_examples // 5, 10)

# Section 1 of the specification and RabbitMQ's extensions: class id, method id, name.
CATALOGUE = """
10 10 connection.start        10 11 connection.start-ok       10 20 connection.secure
10 21 connection.secure-ok    10 30 connection.tune           10 31 connection.tune-ok
10 40 connection.open         10 41 connection.open-ok        10 50 connection.close
10 51 connection.close-ok     10 60 connection.blocked        10 61 connection.unblocked
10 70 connection.update-secret  10 71 connection.update-secret-ok
20 10 channel.open   20 11 channel.open-ok   20 20 channel.flow   20 21 channel.flow-ok
20 40 channel.close  20 41 channel.close-ok
30 10 access.request 30 11 access.request-ok
40 10 exchange.declare 40 11 exchange.declare-ok 40 20 exchange.delete 40 21 exchange.delete-ok
40 30 exchange.bind    40 31 exchange.bind-ok    40 40 exchange.unbind 40 51 exchange.unbind-ok
50 10 queue.declare 50 11 queue.declare-ok 50 20 queue.bind   50 21 queue.bind-ok
50 30 queue.purge   50 31 queue.purge-ok   50 40 queue.delete 50 41 queue.delete-ok
50 50 queue.unbind  50 51 queue.unbind-ok
60 10 basic.qos     60 11 basic.qos-ok     60 20 basic.consume 60 21 basic.consume-ok
60 30 basic.cancel  60 31 basic.cancel-ok  60 40 basic.publish 60 50 basic.return
60 60 basic.deliver 60 70 basic.get        60 71 basic.get-ok  60 72 basic.get-empty
60 80 basic.ack     60 90 basic.reject     60 100 basic.recover-async
60 110 basic.recover 60 111 basic.recover-ok 60 120 basic.nack
85 10 confirm.select 85 11 confirm.select-ok
90 10 tx.select 90 11 tx.select-ok 90 20 tx.commit 90 21 tx.commit-ok
90 30 tx.rollback 90 31 tx.rollback-ok
"""

PAYLOADS = [
    (
        "000a 000a 00 09 00000000 00000005 504c41494e 00000005 656e5f5553",
        ConnectionStart(mechanisms=b"PLAIN"),
    ),
    ("000a 001e 07ff 00020000 003c", ConnectionTune(2047, 131072, 60)),
    ("000a 0032 0140 03 627965 0032 000a", ConnectionClose(320, "bye", 50, 10)),
    ("0014 000b 00000000", ChannelOpenOk()),
    ("0014 0028 0194 02 6e6f 003c 0028", ChannelClose(404, "no", 60, 40)),
    # access.request has five bits; the first is exclusive.
    ("001e 000a 05 2f64617461 1e", AccessRequest()),
    ("001e 000a 05 2f64617461 01", AccessRequest("/data", True, False, False, False, False)),
    (
        "0028 000a 0000 01 78 05 746f706963 0a 00000000",
        ExchangeDeclare(exchange="x", type="topic", durable=True, internal=True),
    ),
    ("0028 0033", ExchangeUnbindOk()),
    (
        "0032 000a 0000 01 71 16 00000007 016b 49 00000007",
        QueueDeclare(
            queue="q",
            durable=True,
            exclusive=True,
            no_wait=True,
            arguments={"k": FieldValue(b"I", 7)},
        ),
    ),
    ("0032 000b 01 71 00000001 00000002", QueueDeclareOk("q", 1, 2)),
    ("0032 0028 0000 01 71 02", QueueDelete(queue="q", if_empty=True)),
    (
        "003c 0014 0000 01 71 01 63 02 00000000",
        BasicConsume(queue="q", consumer_tag="c", no_ack=True),
    ),
    (
        "003c 0028 0000 01 78 01 6b 01",
        BasicPublish(exchange="x", routing_key="k", mandatory=True),
    ),
    (
        "003c 003c 01 63 0000000000000007 01 00 01 71",
        BasicDeliver("c", 7, True, "", "q"),
    ),
    # The flags of ack, reject and nack share one octet, lowest bit first.
    ("003c 0050 ffffffffffffffff 01", BasicAck(2**64 - 1, multiple=True)),
    ("003c 005a 0000000000000001 00", BasicReject(1, requeue=False)),
    ("003c 0078 0000000000000001 02", BasicNack(1, multiple=False, requeue=True)),
    ("003c 0078 0000000000000001 01", BasicNack(1, multiple=True, requeue=False)),
]


def test_every_method_of_the_catalogue_has_a_class() -> None:
    found = {(str(c), str(m), cls.name) for (c, m), cls in METHODS.items()}
    assert found == set(zip(*[iter(CATALOGUE.split())] * 3, strict=True))


def test_only_messages_have_content() -> None:
    with_content = {cls.name for cls in METHODS.values() if cls.has_content}
    assert with_content == {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}


@pytest.mark.parametrize(("octets", "method"), PAYLOADS, ids=lambda row: getattr(row, "name", ""))
def test_each_method_has_its_octets(octets: str, method: Method) -> None:
    payload = bytes.fromhex(octets)
    assert decode_method(payload) == method
    assert method.encode() == payload


def test_a_method_frame_has_header_and_end() -> None:
    assert method_frame(513, QueueDeclareOk("q")) == bytes.fromhex(
        "01 0201 0000000e 0032000b 0171 00000000 00000000 ce"
    )


@pytest.mark.parametrize("channel", [1, 65_535])
@pytest.mark.parametrize("tag", [1, 256, (1 << 62) - 1])
@pytest.mark.parametrize("multiple", [False, True])
def test_the_frame_of_a_confirm_is_that_of_its_method(
    channel: int, tag: int, multiple: bool
) -> None:
    expected = method_frame(channel, BasicAck(delivery_tag=tag, multiple=multiple))

    assert ack_frame(channel, tag, multiple=multiple) == expected


def test_methods_do_not_share_their_tables() -> None:
    one, other = QueueDeclare(), QueueDeclare()
    assert one.arguments is not other.arguments
    assert not hasattr(one, "__dict__")


def test_methods_are_equal_by_class_and_arguments() -> None:
    assert BasicAck(7, True) == BasicAck(7, True)
    assert hash(BasicAck(7, True)) == hash(BasicAck(7, True))
    assert BasicAck(7) != BasicAck(7, True)
    assert ChannelOpenOk() != QueueDeclare()
    assert repr(BasicAck(7)) == "BasicAck(delivery_tag=7, multiple=False)"


@pytest.mark.parametrize("method_class", METHODS.values(), ids=lambda cls: cls.name)
@settings(max_examples=EXAMPLES_PER_METHOD)
@given(data=st.data())
def test_any_method_survives_octet_for_octet(
    method_class: type[Method], data: st.DataObject
) -> None:
    method = data.draw(methods_of(method_class))
    payload = method.encode()
    decoded = decode_method(payload)
    assert type(decoded) is method_class
    assert decoded.encode() == payload
    assert repr(decoded) == repr(method)


@given(methods)
def test_a_payload_cut_anywhere_is_a_syntax_error_that_names_the_method(method: Method) -> None:
    payload = method.encode()
    for end in range(len(payload)):
        with pytest.raises(FieldSyntaxError) as caught:
            decode_method(payload[:end])
        named = (caught.value.class_id, caught.value.method_id)
        assert named == ((method.class_id, method.method_id) if end >= 4 else (0, 0))


@given(methods, st.binary(min_size=1, max_size=4))
def test_bytes_after_the_arguments_are_a_syntax_error(method: Method, excess: bytes) -> None:
    with pytest.raises(FieldSyntaxError, match="after the arguments"):
        decode_method(method.encode() + excess)


@pytest.mark.parametrize("payload", [b"\x00\x32\x00\x63", b"\x00\x05\x00\x0a", b"\xff\xff\xff\xff"])
def test_an_unknown_method_is_not_implemented(payload: bytes) -> None:
    with pytest.raises(NotImplementedAmqp) as caught:
        decode_method(payload)
    assert caught.value.reply_code == 540
    assert caught.value.reply_text == "NOT_IMPLEMENTED - unimplemented method"
    named = caught.value.class_id.to_bytes(2, "big") + caught.value.method_id.to_bytes(2, "big")
    assert named == payload


@given(st.sampled_from(list(METHODS)), st.binary(max_size=60))
def test_garbage_raises_nothing_but_amqp_errors(ids: tuple[int, int], garbage: bytes) -> None:
    payload = ids[0].to_bytes(2, "big") + ids[1].to_bytes(2, "big") + garbage
    with contextlib.suppress(AmqpError):
        decode_method(payload)
    with contextlib.suppress(AmqpError):
        decode_method(garbage)


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclareOk(queue="x" * 256),
        QueueDeclareOk(queue="q", message_count=2**32),
        QueueDeclareOk(queue="q", consumer_count=-1),
        BasicAck(delivery_tag=2**64),
        QueueDeclare(arguments={"k": FieldValue(b"b", 128)}),
    ],
    ids=repr,
)
def test_a_value_that_does_not_fit_its_argument_is_not_encoded(method: Method) -> None:
    with pytest.raises(FieldSyntaxError) as caught:
        method.encode()
    assert (caught.value.class_id, caught.value.method_id) == (method.class_id, method.method_id)


@pytest.mark.parametrize("method_class", METHODS.values(), ids=lambda cls: cls.name)
def test_every_argument_has_a_default(method_class: type[Method]) -> None:
    method = method_class()
    assert decode_method(method.encode()) == method
    assert len(fields(method)) == len(method.__slots__)  # type: ignore[arg-type]
