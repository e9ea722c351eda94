"""The load generator: measures any AMQP 0-9-1 broker, and ours beside RabbitMQ.

It speaks AMQP by itself, so that it owes nothing to the server that it measures, and burns as
little of a shared machine as it can: publishes are encoded once and sent in 64 KiB writes
(`publish_block`), deliveries are counted by their bytes (`delivery_layout`). Publisher and consumer
are processes of their own (`worker`). `python -m bench --help` says what it can do;
docs/benchmarks.md says what its figures mean.
"""
