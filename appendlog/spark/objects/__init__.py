"""Object stores: S3, Google Cloud, Azure, HDFS, and what fsspec knows beside them."""
