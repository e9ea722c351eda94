"""The command `python -m bench.spark NAME ...`."""

import click

from bench.options import CONTEXT
from bench.spark.copy import benchmark as copy
from bench.spark.decode import benchmark as decode
from bench.spark.rounds import benchmark as rounds
from bench.spark.small_range import benchmark as small_range

main = click.Group(
    "bench.spark",
    commands={"copy": copy, "decode": decode, "rounds": rounds, "small-range": small_range},
    help="Measure reading logs with Spark, beside Spark reading and writing Parquet.",
    context_settings=CONTEXT,
)
