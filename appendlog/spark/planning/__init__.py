"""Plans a read: which logs, which of their offsets, and in which pieces."""
