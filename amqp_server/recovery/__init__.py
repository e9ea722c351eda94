"""What a start reads, checks and repairs before the server serves anybody."""
