"""Data directories of earlier versions, kept for ever, and what must be found in them."""
