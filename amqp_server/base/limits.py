"""All limits that a client can reach and no option sets.

A client that exceeds one gets the AMQP error of the specification or a nack, or the broker stops
reading its socket for a while. The result is never a dead server, an unbounded buffer or a stalled
event loop. `amqp_server.base.config` has the settings of the operator.
"""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one server. Tests pass small ones to reach them quickly.

    Attributes:
        handshake_seconds_max: Seconds from accept to `connection.open-ok`; a slower peer is closed.
        tls_handshakes_max: TLS handshakes that are under way; one more waits, unread, for at most
            `handshake_seconds_max`.
        refused_login_seconds: Seconds from a refused login to the close of its socket, if the
            client understands no close with a reason. The delay slows down password guessing
            (RabbitMQ's silent close delay).
        linger_seconds_max: Seconds from the last octet sent to a peer to the close of its socket,
            unless the peer closes it sooner; what it still sends is read and dropped.
        closing_seconds_max: Seconds that clients have to answer connection.close when the server
            stops; afterwards their sockets are closed at once. 4 seconds at most.
        lingering_connections_max: Connections that wait for that; one more is closed at once, and
            its peer may see a reset.
        login_bytes_max: Largest frame before the client is logged in and has tuned the connection.
        frame_bytes_min: Smallest frame-max that a client may ask for (specification, 4.2.3).
        exchanges_max: Exchanges of one virtual host. One more: precondition-failed (406).
        queues_max: Queues of one virtual host. One more: precondition-failed (406).
        bindings_max: Bindings of one virtual host. One more: precondition-failed (406).
        hash_bindings_max: Bindings of one exchange of type x-consistent-hash: after each change,
            the next message looks at all of them. One more: precondition-failed (406).
        copies_max: Routing keys in the headers `CC` and `BCC` of one message. One more:
            precondition-failed (406).
        header_values_max: Values in the headers of a message that is routed by itself, because of
            its exchange or of `CC`: they are decoded in one step, nested ones too. More:
            precondition-failed (406).
        route_visits_max: Exchanges, bindings and nodes of binding keys (one for each word that no
            earlier binding key begins with) that the broker compares one message with. More:
            precondition-failed (406).
        shards_of_exchange_max: Shards that `amqp-server shards create` makes for an exchange: all
            their bindings take effect in one turn of the event loop.
        consumers_per_channel_max: Consumers of one channel. One more: not-allowed (530).
        unacked_messages_per_channel_max: Unacknowledged deliveries on one channel, whatever its
            prefetch count; at the limit it gets no more until some are settled.
        waiting_reply_bytes_per_channel_max: Bytes of direct replies that wait for a slow reader.
            Above it a reply is dropped, and returned to its publisher if it was mandatory.
        read_buffer_bytes: Largest size of one read in bytes. Each connection is read once a turn,
            so publishers whose sockets hold more than this are read equally.
        large_read_bytes: The same for a connection whose last read ended in a large frame.
        write_buffer_bytes_per_connection_max: Unsent bytes of one client; above it the broker stops
            reading its requests. (Deliveries stop earlier, at 1 MiB.)
        alarm_check_seconds: Seconds between two checks of memory and disk.
        unread_fraction_max: Fraction of the memory watermark that the unread bytes of all clients
            may use while the memory alarm is on. Above it slow readers are cut off, those with the
            most unread bytes first (`amqp_server.connections.slow_readers`).
        slow_reader_checks_max: Checks of the memory in a row during which a client's socket takes
            nothing of its unread bytes; then it is a slow reader.
        parked_bytes_per_connection_max: Bytes of publishes that wait for the end of an alarm. Above
            it the broker stops reading the connection or refuses with nacks
            (`amqp_server.connections.parked_publishes`).
        parked_bytes_max: The same for all connections together. Above it the broker does so with
            every connection that has parked something.
        assembly_bytes_max: Bytes of incomplete messages of all connections together. If they would
            exceed it, a connection with more than its fair share is closed with resource-error
            (506).
        transaction_bytes_per_channel_max: Bytes of uncommitted publishes of one channel (tx.*).
            More: precondition-failed (406), and the transaction is lost.
        transaction_bytes_max: The same for all channels together. More: the same error.
    """

    handshake_seconds_max: float = 10.0
    tls_handshakes_max: int = 256
    refused_login_seconds: float = 3.0
    linger_seconds_max: float = 1.0
    closing_seconds_max: float = 4.0
    lingering_connections_max: int = 1000
    login_bytes_max: int = 64 * KIB
    frame_bytes_min: int = 4096
    exchanges_max: int = 100_000
    queues_max: int = 100_000
    bindings_max: int = 1_000_000
    hash_bindings_max: int = 10_000
    copies_max: int = 4096
    header_values_max: int = 8192
    route_visits_max: int = 1 << 18
    shards_of_exchange_max: int = 1024
    consumers_per_channel_max: int = 10_000
    unacked_messages_per_channel_max: int = 2_000_000
    waiting_reply_bytes_per_channel_max: int = 4 * MIB
    read_buffer_bytes: int = 128 * KIB
    large_read_bytes: int = 512 * KIB
    write_buffer_bytes_per_connection_max: int = 4 * MIB
    alarm_check_seconds: float = 1.0
    unread_fraction_max: float = 0.25
    slow_reader_checks_max: int = 5
    parked_bytes_per_connection_max: int = 1 * MIB
    parked_bytes_max: int = 256 * MIB
    assembly_bytes_max: int = 1 * GIB
    transaction_bytes_per_channel_max: int = 256 * MIB
    transaction_bytes_max: int = 1 * GIB
