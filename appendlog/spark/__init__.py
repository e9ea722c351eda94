"""Logs in Spark: reading them, and exporting them.

A roof over the storage rooms: it may import all of them, and only the command line and
`pyspark_amqplog` import it. The only place, beside that, that imports pyspark and pyarrow. The
broker has no part in it: the log's files are read directly, while it runs or not, and never past
the durable end.

    schema      the rows: columns, their types
    planning    which logs, which offsets of them, cut into what pieces
    decoding    records of a log to Arrow record batches
    exporting   from a plan to files that are committed
    source      what `format("amqplog")` means to Spark
    running     Spark itself: starting it, giving its workers what they need

The theory of it, and what is promised: docs/spark.md.
"""
