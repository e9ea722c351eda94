"""What happens in the broker, told to whoever listens: an exchange, and followers."""
