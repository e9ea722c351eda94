"""What clients are given: consumers, whose turn it is, what is unacked."""
