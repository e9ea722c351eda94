"""Publishes that go to many queues in turn."""

from collections.abc import Sequence
from math import gcd

from bench.publish_block import PublishBlock


class SpreadBlocks:
    """Blocks of persistent publishes; each message goes to the next of the queues, in a circle.

    Attributes:
        block_messages: Publishes in a block.
    """

    def __init__(
        self, channel: int, queues: Sequence[str], *, body_bytes: int, block_messages: int
    ) -> None:
        """Encode the frames of one whole circle.

        Args:
            channel: Number of the channel.
            queues: Names of the queues, all of one length.
            body_bytes: Size of each body.
            block_messages: Publishes in a block.

        Raises:
            ValueError: As of `PublishBlock`.
        """
        self.block_messages = block_messages
        circle = len(queues) // gcd(len(queues), block_messages)
        self._blocks = [
            PublishBlock(
                channel,
                "",
                body_bytes=body_bytes,
                persistent=True,
                routing_keys=[
                    queues[(block * block_messages + i) % len(queues)]
                    for i in range(block_messages)
                ],
            )
            for block in range(circle)
        ]

    def encode(self, block: int, stamp_ns: int) -> bytes:
        """Encode one block, complete for a write; arguments as of `PublishBlock.encode`."""
        return self._blocks[block % len(self._blocks)].encode(block, stamp_ns)
