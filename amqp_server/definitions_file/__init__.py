"""Definitions in and out, in the form of RabbitMQ's `definitions.json`."""
