"""Isolation: the latencies of clients while another client gives the broker much work."""
