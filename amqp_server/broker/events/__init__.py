"""What happens in the broker, reported to an exchange and to followers."""
