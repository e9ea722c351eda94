"""Sets of shards: a consistent-hash exchange and its numbered queues."""
