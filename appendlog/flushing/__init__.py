"""Writes in other threads than the event loop's: requests of many logs, carried out in rounds."""
