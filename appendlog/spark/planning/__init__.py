"""Which logs, which offsets of them, cut into what pieces."""
