"""Data source `amqplog` of Spark: reads logs as rows, in batch and streaming queries."""
