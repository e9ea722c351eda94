"""Logs in Spark: the batch export.

A roof over the storage rooms: it may import all of them, and only the command line imports
it. The only place that imports pyspark and pyarrow. The broker has no part in it: the log's
files are read directly, while it runs or not, and never past the durable end.

    queues         which log a queue has
    planning       what of it is not in the output yet, cut into parts
    part_writer    one Spark task: a split of the log becomes one Parquet file
    arrow_batches  messages to Arrow; properties, schema beside it
    output         the output directory: names, lock, commit
    export         plan and run the whole
    session, java  starting Spark

The theory of it, and what is promised: docs/spark.md.
"""
