"""Writing off the event loop: requests of many logs, carried out in rounds."""
