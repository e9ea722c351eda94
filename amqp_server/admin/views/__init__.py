"""Rows that commands print: of queues, records and messages, read from files or by the server."""
