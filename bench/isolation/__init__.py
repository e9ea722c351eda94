"""Isolation: what clients notice while another client gives the broker a lot to do."""
