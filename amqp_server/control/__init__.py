"""Talking to the running server through the socket in its data directory: docs/control.md."""
