"""Spark's data source `amqplog`: reading logs as rows, in batches and as a stream."""
