"""Damage as a disk does it: a bit of an octet that is another one."""

from pathlib import Path


def flip(path: Path, *places: int) -> None:
    """Flip a bit of each of these octets of a file."""
    octets = bytearray(path.read_bytes())
    for at in places:
        octets[at] ^= 1
    path.write_bytes(octets)


def flip_middle(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    flip(path, path.stat().st_size // 2)


def flip_texts(path: Path, *texts: bytes) -> None:
    """Flip a bit where each of these texts first begins in a file."""
    octets = path.read_bytes()
    flip(path, *(octets.index(text) for text in texts))
