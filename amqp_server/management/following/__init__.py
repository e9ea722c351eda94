"""Streams of events and of log lines: one follower of the broker, shared by all HTTP clients."""
