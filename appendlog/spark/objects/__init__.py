"""Reads and writes objects in S3, Google Cloud, Azure, HDFS and other stores of fsspec."""
