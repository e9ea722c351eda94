"""Reads logs in Spark, and exports them.

This package may import all storage packages; only the command line and `pyspark_amqplog` import
it. Only these two packages import pyspark, and only this one imports pyarrow. It reads the files of
the logs directly, whether the broker runs or not, and never past the durable end.

    schema      the rows: columns, their types
    planning    which logs and which of their offsets are read, in which pieces
    decoding    turns the records of a log into Arrow record batches
    objects     data directories and outputs in object stores
    exporting   writes what was planned, and commits it
    importing   reads exports back, for `amqp-server import`
    source      the data source `format("amqplog")`
    running     starts Spark, and gives its workers what they need

docs/spark-exactly-once.md explains how it works and what it guarantees.
"""
