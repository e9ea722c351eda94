"""RabbitMQ's `rabbitmq.conf` as a source of settings.

`entries` reads the files, `keys` knows RabbitMQ's keys, `translation` makes settings of entries.
"""
