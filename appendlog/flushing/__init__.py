"""Writes in other threads than the event loop's: requests of many logs, and whose turn it is."""
