"""What the Spark reader costs, beside Spark's own way of doing the same in the same run.

`copy` measures the export and the data source beside Spark's copy of the same rows from Parquet
to Parquet; `decode` the decoder alone, without Spark; `small-range` counts what is read for a
hundred offsets.
"""
