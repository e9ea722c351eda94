"""The kernel of the generator: renews messages in place, and verifies deliveries and confirms.

The file is ordinary Python. `_frames_c.pxd` gives its names C types, and `kernel_build` compiles it
as `_frames_c`; `frames` chooses. Lengths are checked before octets are read, because a compiled
index is not checked.

A message's identity is its *serial*: phase (8 bits), publisher (16), number (40). Its body has

    lead | 16 digits serial | 16 digits stamp | 8 digits CRC-32 | tail

in hexadecimal digits, so that text bodies stay text. The stamp is in ns of CLOCK_MONOTONIC. The CRC
covers the tail, then all that stands before the CRC: so the tail's share is known beforehand.
"""

from __future__ import annotations

from zlib import crc32

COMPILED = __name__.endswith("_c")

FIELD_DIGITS = 40
"""Digits of serial, stamp and CRC."""
NUMBER_BITS = 40
PUBLISHER_BITS = 16
SMALLEST_DELIVERY = 90
"""Fewer bytes than any delivery of a body with FIELD_DIGITS has on the wire."""
ACK_BYTES = 21

_HEX = b"0123456789abcdef"
_VALUES = bytes(_HEX.find(bytes((octet,)).lower()) & 255 for octet in range(256))
_ALL_BITS = (1 << 64) - 1
_FACTOR_1 = 0xBF58476D1CE4E5B9
_FACTOR_2 = 0x94D049BB133111EB
_END = 0xCE
_METHOD_START = 11
"""Octets of a method frame up to its arguments."""
_SMALLEST_HEADER = 22
"""Octets of the frame of a content header without properties."""


def mixed(serial: int, seed: int) -> int:
    """Return 64 bits that look random; two serials never give the same (splitmix64)."""
    value = (serial ^ seed) & _ALL_BITS
    value = ((value ^ (value >> 30)) * _FACTOR_1) & _ALL_BITS
    value = ((value ^ (value >> 27)) * _FACTOR_2) & _ALL_BITS
    return value ^ (value >> 31)


def write_hex(octets: bytearray, at: int, value: int, digits: int) -> None:
    """Write the low digits of a value in hexadecimal."""
    end = at + digits
    while end > at:
        end -= 1
        octets[end] = _HEX[value & 15]
        value >>= 4


def read_hex(octets: bytearray, at: int) -> int:
    """Return the value of 16 hexadecimal digits; another value if one is no digit."""
    value = 0
    for i in range(16):
        value = value << 4 | _VALUES[octets[at + i]]
    return value


def is_hex(octets: bytearray, at: int, value: int) -> bool:
    """Return whether 8 digits are those of a value."""
    end = at + 8
    while end > at:
        end -= 1
        if octets[end] != _HEX[value & 15]:
            return False
        value >>= 4
    return True


def long_at(octets: bytearray, at: int) -> int:
    """Return the big-endian 32 bits at a position."""
    value = octets[at]
    value = value << 8 | octets[at + 1]
    value = value << 8 | octets[at + 2]
    return value << 8 | octets[at + 3]


def renew(
    octets: bytearray,
    view: memoryview,
    messages: list[tuple[tuple[int, ...], int, int, int, int]],
    first: int,
    count: int,
    serial: int,
    seed: int,
    now_ns: int,
    second: int,
) -> None:
    """Give some encoded messages new ids, stamps and digests, in place.

    Args:
        octets: Encoded messages.
        view: A view of the same octets.
        messages: For each message: its places of ids (position, shift and digits in turn), the
            position of its timestamp (0 for none), of its body, of the digits in the body, and the
            CRC of the body's tail.
        first: Index of the first message.
        count: Number of messages.
        serial: Serial of the first message; the next ones have the next numbers.
        seed: Seed of the run's ids.
        now_ns: Stamp of all of them.
        second: Timestamp property of all of them.
    """
    for index in range(first, first + count):
        spots, time_at, body_at, digits_at, tail_crc = messages[index]
        identity = mixed(serial, seed)
        i = 0
        while i < len(spots):
            at = spots[i]
            shift = spots[i + 1]
            digits = spots[i + 2]
            write_hex(octets, at, identity >> shift, digits)
            i += 3
        if time_at:
            value = second
            at = time_at + 8
            while at > time_at:
                at -= 1
                octets[at] = value & 255
                value >>= 8
        write_hex(octets, digits_at, serial, 16)
        write_hex(octets, digits_at + 16, now_ns, 16)
        digest = crc32(view[body_at : digits_at + 32], tail_crc)
        write_hex(octets, digits_at + 32, digest, 8)
        serial += 1


class ConfirmScanner:
    """Counts the broker's confirms, each message once, and keeps the time to each confirm.

    Args:
        window: Most publishes without an answer.
        places: A power of two, more than `window`. Brokers answer out of order: so many publishes
            may lie behind the oldest one without an answer.

    Attributes:
        published: Publishes so far; delivery tags start at 1.
        confirmed: Publishes that the broker acknowledged.
        nacked: Publishes that the broker refused.
        latencies_ns: Time from each publish to its confirm.
        fault: Octets of the first frame that is no confirm of an open publish; b"" for none.
    """

    def __init__(self, window: int, places: int) -> None:
        self.published = 0
        self.confirmed = 0
        self.nacked = 0
        self.latencies_ns: list[int] = []
        self.fault = b""
        self._window = window
        self._mask = places - 1
        self._sent_ns = [0] * places
        self._is_open = bytearray(places)
        self._floor = 0
        self._rest = b""

    def open(self, count: int, now_ns: int) -> None:
        """Count publishes that are sent now."""
        for tag in range(self.published + 1, self.published + count + 1):
            self._sent_ns[tag & self._mask] = now_ns
            self._is_open[tag & self._mask] = 1
        self.published += count

    def outstanding(self) -> int:
        """Return the number of publishes without an answer."""
        return self.published - self.confirmed - self.nacked

    def has_room(self, count: int) -> bool:
        """Return whether so many more publishes are allowed."""
        return (
            self.outstanding() + count <= self._window
            and self.published - self._floor + count <= self._mask
        )

    def feed(self, received: bytes, now_ns: int) -> None:
        """Count the answers in these bytes; an incomplete answer is kept for the next call."""
        octets = bytearray(self._rest + received)
        size = len(octets)
        at = 0
        while size - at >= ACK_BYTES:
            method = octets[at + 10]
            tag = long_at(octets, at + 11) << 32 | long_at(octets, at + 15)
            is_multiple = octets[at + 19] & 1
            if (
                octets[at] != 1
                or long_at(octets, at + 3) != 13
                or octets[at + 8] != 60
                or (method != 80 and method != 120)
                or octets[at + 20] != _END
                or tag > self.published
            ):
                break
            if is_multiple:
                for each in range(self._floor + 1, tag + 1):
                    self._settle(each, method == 80, now_ns)
            else:
                self._settle(tag, method == 80, now_ns)
            while (
                self._floor < self.published and not self._is_open[(self._floor + 1) & self._mask]
            ):
                self._floor += 1
            at += ACK_BYTES
        self._rest = bytes(octets[at:])
        if size - at >= ACK_BYTES:
            self.fault = self._rest

    def _settle(self, tag: int, is_ack: bool, now_ns: int) -> None:
        place = tag & self._mask
        if tag <= self._floor or not self._is_open[place]:
            return
        self._is_open[place] = 0
        if is_ack:
            self.confirmed += 1
            self.latencies_ns.append(now_ns - self._sent_ns[place])
        else:
            self.nacked += 1


class SeenMessages:
    """Marks which messages of each publisher have arrived.

    Args:
        publishers: Number of publishers.

    Attributes:
        distinct: Number of different messages.
    """

    def __init__(self, publishers: int) -> None:
        self.distinct = 0
        self._seen = [bytearray(4096) for _ in range(publishers)]

    def publishers(self) -> int:
        """Return the number of publishers."""
        return len(self._seen)

    def mark(self, publisher: int, number: int) -> bool:
        """Mark a message, and return whether it is new."""
        seen = self._seen[publisher]
        if number >= len(seen):
            # Twice as long: the marks of a run are moved a few times only.
            seen.extend(bytes(number + 1))
        if seen[number]:
            return False
        seen[number] = 1
        self.distinct += 1
        return True


class DeliveryScanner:
    """Verifies each delivery in a read buffer, and encodes one basic.ack for each.

    Args:
        buffer_bytes: Size of the buffer; more than the largest delivery.
        channel: Number of the consumer's channel.
        seen: Marks of arrived messages.
        phase: Phase of the run; messages of another phase count as repeated.
        lead: Octets before the digits in each body.

    Attributes:
        view: The buffer; the caller reads into it behind `filled`, and then calls `scan`.
        filled: Octets in the buffer.
        received: Complete deliveries, of any kind.
        corrupt: Deliveries whose digest is wrong.
        repeated: Deliveries of a message that had arrived before.
        disordered: Deliveries behind a later message of the same publisher.
        last_tag: Delivery tag of the last delivery.
        latencies_ns: Time from each stamp to the scan.
        acks: View of the encoded acks; the first `ack_bytes` belong to the last scan.
        ack_bytes: Octets of the acks of the last scan.
        fault_at: Position of a frame that is no part of a delivery; -1 for none.
    """

    def __init__(
        self, buffer_bytes: int, channel: int, seen: SeenMessages, phase: int, lead: int
    ) -> None:
        self._octets = bytearray(buffer_bytes)
        self.view = memoryview(self._octets)
        self.filled = 0
        self.received = 0
        self.corrupt = 0
        self.repeated = 0
        self.disordered = 0
        self.last_tag = 0
        self.latencies_ns: list[int] = []
        self.ack_bytes = 0
        self.fault_at = -1
        self._seen = seen
        self._phase = phase
        self._lead = lead
        self._last = [-1] * seen.publishers()
        ack = bytes((1, channel >> 8, channel & 255, 0, 0, 0, 13, 0, 60, 0, 80)) + bytes(9)
        acks = buffer_bytes // SMALLEST_DELIVERY + 1
        self._acks = bytearray((ack + bytes((_END,))) * acks)
        self.acks = memoryview(self._acks)

    def scan(self, now_ns: int) -> int:
        """Verify the complete deliveries, remove them from the buffer, and return their number."""
        octets = self._octets
        filled = self.filled
        at = 0
        count = 0
        self.ack_bytes = 0
        while filled - at >= _METHOD_START:
            method = octets[at + 10]
            if octets[at] != 1 or octets[at + 8] != 60 or (method != 60 and method != 71):
                self.fault_at = at
                break
            header_at = at + 8 + long_at(octets, at + 3)
            if header_at + _SMALLEST_HEADER > filled:
                break
            body_at = header_at + 8 + long_at(octets, header_at + 3)
            tag_at = at + _METHOD_START
            if method == 60:
                tag_at += 1 + octets[tag_at]
            if octets[header_at - 1] != _END or octets[header_at] != 2 or tag_at + 8 > header_at:
                self.fault_at = at
                break
            if body_at + 7 > filled:
                break
            body_bytes = long_at(octets, header_at + 15)
            end = self._end_of(body_at, body_bytes)
            if octets[body_at - 1] != _END or end < 0 or end - at > len(octets):
                self.fault_at = at
                break
            if end > filled:
                break
            self._acknowledge(tag_at)
            self.last_tag = long_at(octets, tag_at) << 32 | long_at(octets, tag_at + 4)
            self._verify(body_at, body_bytes, now_ns)
            count += 1
            at = end
        rest = filled - at
        if at and rest:
            self.view[:rest] = self.view[at:filled]
        self.filled = rest
        if self.fault_at >= 0:
            self.fault_at -= at
        self.received += count
        return count

    def _end_of(self, at: int, body_bytes: int) -> int:
        """Return where the frames of a body end that begin at `at`; -1 if they are no such frames.

        Of a body that has not arrived, it is the least position where it can end.
        """
        octets = self._octets
        left = body_bytes
        while left > 0 and at + 7 <= self.filled:
            size = long_at(octets, at + 3)
            if octets[at] != 3 or size > left or not size:
                return -1
            at += 8 + size
            left -= size
            if at <= self.filled and octets[at - 1] != _END:
                return -1
        return at if left == 0 else at + 8 + left

    def _acknowledge(self, tag_at: int) -> None:
        at = self.ack_bytes + 11
        for i in range(8):
            self._acks[at + i] = self._octets[tag_at + i]
        self.ack_bytes += ACK_BYTES

    def _verify(self, at: int, body_bytes: int, now_ns: int) -> None:
        """Verify the body whose complete frames begin at `at`; the first one has the digits."""
        body_at = at + 7
        digits_at = body_at + self._lead
        tail_at = digits_at + FIELD_DIGITS
        end = body_at + long_at(self._octets, at + 3)
        if tail_at > end:
            self.corrupt += 1
            return
        digest = crc32(self.view[tail_at:end])
        left = body_bytes - (end - body_at)
        while left > 0:
            at = end + 1
            end = at + 7 + long_at(self._octets, at + 3)
            digest = crc32(self.view[at + 7 : end], digest)
            left -= end - at - 7
        digest = crc32(self.view[body_at : digits_at + 32], digest)
        if not is_hex(self._octets, digits_at + 32, digest):
            self.corrupt += 1
            return
        serial = read_hex(self._octets, digits_at)
        number = serial & ((1 << NUMBER_BITS) - 1)
        publisher = serial >> NUMBER_BITS & ((1 << PUBLISHER_BITS) - 1)
        phase = serial >> (NUMBER_BITS + PUBLISHER_BITS)
        if publisher >= len(self._last):
            self.corrupt += 1
            return
        if phase != self._phase or not self._seen.mark(publisher, number):
            self.repeated += 1
            return
        if number < self._last[publisher]:
            self.disordered += 1
        else:
            self._last[publisher] = number
        self.latencies_ns.append(now_ns - read_hex(self._octets, digits_at + 16))
