"""Imports of exported messages into queues, each message once."""
