"""AMQP 0-9-1 without input or output: frames, methods, tables, content and state machines."""
