"""The management server: HTTP API, metrics and page, in a process of their own.

It is a client of the broker's control socket and imports nothing of the broker.
"""
