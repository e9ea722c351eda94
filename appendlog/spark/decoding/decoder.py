"""What turns records into Arrow: one interface, and which decoder is behind it.

`kernel_decoder` and the kernel's walk where kernels are compiled, else `numpy_decoder` and
`numpy_walk`. Both give the same batches for the same records as the reference does
(`arrow_batches.BatchBuilder`), byte for byte: that is what they are tested against. One decoder
is of one log and one schema, and is used from one thread.
"""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from appendlog.layout import records
from appendlog.layout.columns import COMPILED
from appendlog.segments.read_result import Records
from appendlog.spark.decoding import numpy_walk
from appendlog.spark.decoding.kernel_decoder import KernelDecoder
from appendlog.spark.decoding.numpy_decoder import NumpyDecoder
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.schema.columns import RowSchema


class Decoder(Protocol):
    """Makes record batches of the columns of one schema; what was not asked for costs nothing.

    Attributes:
        undecodable: Messages so far with a null because bytes do not add up: of the property list,
            if a property is asked for; of the headers table, if the headers are.
    """

    undecodable: int

    def build(self, parts: Sequence[Records]) -> pa.RecordBatch:
        """Return one batch: a row per record, in their order; none of no records.

        Args:
            parts: As a read of the log returns them: together at most
                `log_batches.BATCH_BYTES` and one message. Not kept.

        Raises:
            MalformedMessageError: Bytes of a message end inside its route or properties. Found
                only if a column is asked for that is made from them.
        """


def decoder_for(log: QueueLog, schema: RowSchema) -> Decoder:
    """Return the fastest decoder that there is.

    Args:
        log: Its names go into the rows.
        schema: Columns of the batches.
    """
    if COMPILED:
        return KernelDecoder(log.vhost, log.queue, schema)
    return NumpyDecoder(log.vhost, log.queue, schema)


def walk_for_decoding() -> records.WalkChunks:
    """Return the fastest walk over chunks that there is."""
    return records.walk_chunks if records.COMPILED else numpy_walk.walk_chunks
