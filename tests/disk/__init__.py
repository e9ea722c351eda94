"""Disks that hang: real file systems below real servers."""
