"""AMQP transactions: what a channel defers until `tx.commit`, and the commit itself."""
