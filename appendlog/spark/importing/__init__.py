"""Reads exports back as messages, in the order of their offsets."""
