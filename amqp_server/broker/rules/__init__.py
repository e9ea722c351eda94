"""What a queue does without a client: expiry, length limits, delivery limits, its own deletion."""
