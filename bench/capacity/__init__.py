"""What a connection, a queue and a message cost our server: the constants of `amqp-server size`."""
