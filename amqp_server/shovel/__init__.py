"""Shovels: they move messages from a queue to an exchange, of this broker or of others."""
