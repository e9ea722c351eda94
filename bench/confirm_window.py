"""Counts the publishes that a broker has answered with an ack or a nack, each message once."""

import struct
from typing import Final

from bench.amqp_frames import BASIC, FRAME_END, METHOD, try_parse_frame
from bench.errors import UnexpectedFrameError

_ACK: Final = 80
_NACK: Final = 120
_ANSWER: Final = struct.Struct(">BHIHHQBB")
"""Layout of basic.ack and basic.nack, which differ only in their method number."""


class ConfirmWindow:
    """Counts the broker's confirms; delivery tags start at 1 and grow by 1 with each publish.

    Attributes:
        confirmed: Publishes that the broker acknowledged.
        nacked: Publishes that the broker refused.
    """

    def __init__(self) -> None:
        self.confirmed = 0
        self.nacked = 0
        self._floor = 0
        self._above: set[int] = set()
        self._rest = b""

    @property
    def settled(self) -> int:
        """Publishes that the broker answered, with an ack or a nack."""
        return self.confirmed + self.nacked

    def feed(self, octets: bytes) -> None:
        """Count the answers in these bytes; an incomplete answer is kept for the next call.

        Raises:
            UnexpectedFrameError: The broker sent another method, such as a return or a close.
        """
        octets = self._rest + octets
        whole_bytes = len(octets) // _ANSWER.size * _ANSWER.size
        self._rest = octets[whole_bytes:]
        position = 0
        for kind, _, size, class_id, method_id, tag, multiple, end in _ANSWER.iter_unpack(
            octets[:whole_bytes]
        ):
            if (kind, size, class_id, end) != (METHOD, 13, BASIC, FRAME_END):
                raise self._describe(octets[position:])
            if method_id == _ACK:
                self.confirmed += self._settle(tag, bool(multiple))
            elif method_id == _NACK:
                self.nacked += self._settle(tag, bool(multiple))
            else:
                raise self._describe(octets[position:])
            position += _ANSWER.size

    def _settle(self, tag: int, multiple: bool) -> int:
        """Mark a tag, or all tags up to it, as answered; return how many are newly answered."""
        if tag <= self._floor or (tag in self._above and not multiple):
            return 0
        if multiple:
            covered = {each for each in self._above if each <= tag}
            newly = tag - self._floor - len(covered)
            self._above -= covered
            self._floor = tag
        else:
            newly = 1
            self._above.add(tag)
        while self._floor + 1 in self._above:
            self._floor += 1
            self._above.remove(self._floor)
        return newly

    @staticmethod
    def _describe(octets: bytes) -> UnexpectedFrameError:
        parsed = try_parse_frame(octets, 0)
        found = parsed.describe() if parsed else f"bytes {octets[:16].hex()}"
        return UnexpectedFrameError(found, "a confirm")
