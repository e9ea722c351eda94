"""The bounds that a peer can reach and no option sets: every one, in one place.

Passing one is answered with the AMQP error that the specification names, with a nack, or by not
reading that peer's socket for a while: never with a dead server, an unbounded buffer or a stalled
loop. What an operator sets is in `amqp_server.config`.
"""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one server. Tests hand in small ones to reach them quickly.

    Attributes:
        connections_max: Open client connections; one more is closed before its handshake.
        handshake_seconds_max: From accept to `connection.open-ok`; a slower peer is closed.
        refused_login_seconds: From a refused login until the socket of a client that cannot be told
            is closed, so that guessing is slow (RabbitMQ's silent close delay).
        linger_seconds_max: From the last octet sent to a peer until its socket is closed, unless
            the peer closes it sooner; what it still sends is read and dropped.
        lingering_connections_max: Connections that wait so; one more is closed at once, and its
            peer may see a reset.
        channels_per_connection_max: Offered as channel-max in `connection.tune`.
        frame_bytes_max: Offered as frame-max in `connection.tune`; a whole frame, with its header
            and end octet. A larger frame is a frame error (501).
        login_bytes_max: Largest frame before the client is logged in and has tuned the connection.
        frame_bytes_min: Least frame-max that a client may ask for (specification, 4.2.3).
        heartbeat_seconds: Offered in `connection.tune`; the client may lower it or refuse (0).
        vhosts_max: Virtual hosts. One more is refused.
        exchanges_max: Exchanges of one virtual host. One more: precondition-failed (406).
        queues_max: Queues of one virtual host. One more: precondition-failed (406).
        bindings_max: Bindings of one virtual host. One more: precondition-failed (406).
        shards_of_exchange_max: Shards that `amqp-server shards create` makes for an exchange: their
            bindings come into force in one turn of the loop.
        consumers_per_channel_max: Consumers of one channel. One more: not-allowed (530).
        unacked_messages_per_channel_max: Deliveries waiting for an ack on one channel, whatever its
            prefetch count; at the bound nothing more is delivered until some are settled.
        waiting_reply_bytes_per_channel_max: Direct replies kept for a client that does not read;
            what passes it is dropped, and returned to its publisher if that asked (mandatory).
        read_buffer_bytes: What one read of a connection takes at most; each is read once a turn, so
            equal publishers are read equally while their sockets hold more than this.
        write_buffer_bytes_per_connection_max: Waiting to be sent to one client; above it its
            requests are no longer read. (Deliveries stop earlier, at 1 MiB.)
        alarm_check_seconds: Between two looks at memory and disk.
        parked_bytes_per_connection_max: Publishes that wait for the end of an alarm; past it the
            connection is not read, or refused with nacks (`amqp_server.parked_publishes`).
        parked_bytes_max: The same of all connections together; past it every one that has parked
            something is not read, or refused.
        assembly_bytes_max: Parts of messages whose body has not wholly arrived, of all connections
            together. When they would pass it, a connection that holds more than its fair share
            is closed with resource-error (506), and others go on.
        transaction_bytes_per_channel_max: Uncommitted publishes of one channel (tx.*). More:
            precondition-failed (406), and the transaction is gone.
        transaction_bytes_max: Uncommitted publishes of all channels together. More: the same.
    """

    connections_max: int = 10_000
    handshake_seconds_max: float = 10.0
    refused_login_seconds: float = 3.0
    linger_seconds_max: float = 1.0
    lingering_connections_max: int = 1000
    channels_per_connection_max: int = 2047
    frame_bytes_max: int = 131_072
    login_bytes_max: int = 64 * KIB
    frame_bytes_min: int = 4096
    heartbeat_seconds: int = 60
    vhosts_max: int = 10_000
    exchanges_max: int = 100_000
    queues_max: int = 100_000
    bindings_max: int = 1_000_000
    shards_of_exchange_max: int = 1024
    consumers_per_channel_max: int = 10_000
    unacked_messages_per_channel_max: int = 2_000_000
    waiting_reply_bytes_per_channel_max: int = 4 * MIB
    read_buffer_bytes: int = 128 * KIB
    write_buffer_bytes_per_connection_max: int = 4 * MIB
    alarm_check_seconds: float = 1.0
    parked_bytes_per_connection_max: int = 1 * MIB
    parked_bytes_max: int = 256 * MIB
    assembly_bytes_max: int = 1 * GIB
    transaction_bytes_per_channel_max: int = 256 * MIB
    transaction_bytes_max: int = 1 * GIB
