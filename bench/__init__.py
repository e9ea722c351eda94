"""The load generator: measures any AMQP 0-9-1 broker, and ours beside RabbitMQ.

It has its own AMQP client, which shares no code with the server that it measures. It shares the
machine with the server and therefore uses little CPU: publishes are encoded once and sent in writes
of 64 KiB (`publish_block`), deliveries are counted by their bytes (`delivery_layout`). Publishers
and consumers are separate processes (`worker`).

A `Workload` says what publishers and consumers do; `run_workload` runs it and returns a
`Measurement`. `python -m bench` runs workloads by name (`session`, `report`). `python -m bench
table` runs the rows of `bench.rows` (`bench.table`). The messages of both are alike; those of
`bench.traffic` all differ. `python -m bench --help` lists the options;
docs/benchmarks.md explains the figures.
"""
