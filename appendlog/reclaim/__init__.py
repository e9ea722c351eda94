"""Reclaiming disk space: removal of segments, and rewriting of segments that shrink."""
