"""Sets of shards: one exchange that hashes, and its numbered queues."""
