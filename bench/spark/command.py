"""The command `python -m bench.spark NAME ...`."""

import click

from bench.spark.decode import benchmark as decode

main = click.Group(
    "bench.spark",
    commands={"decode": decode},
    help="Measure reading logs with Spark, beside Spark reading and writing Parquet.",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
