"""Messages that were exported come back into a queue, each once."""
