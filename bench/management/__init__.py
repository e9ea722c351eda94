"""What the management server costs the clients of AMQP: the same load alone and with its users."""
