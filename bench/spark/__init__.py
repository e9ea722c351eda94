"""Cost of the Spark reader, beside Spark's own way of doing the same in the same run.

`copy` measures the export and the data source beside Spark's copy of the same rows from Parquet
to Parquet. `decode` measures the decoder alone, without Spark. `small-range` counts the bytes that
are read for a hundred offsets.
"""
