"""Text without what differs from run to run: times, ids, ports, paths and measured numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_REPLACED: Final = (
    # What a busy machine makes of a method: `status` lists it.
    (r"(?m)^stalls +\d+, longest .*\n(?:  \S.*\n)*", ""),
    (r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "<uuid>"),
    (r"\b[0-9a-f]{32,64}\b", "<digits>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"\b(?:127\.0\.0\.1|localhost|\[?::1\]?):\d+", "<address>"),
    (r"os:\d+/[\w-]+", "<administrator>"),
    (r"rabbit@[\w.-]+", "<node>"),
    (r"amqp-server@[\w.-]+", "<node>"),
    (r"(?i)\bpid[=: ]+\d+", "pid=<number>"),
    (r'("[a-z_]*password_hash"|"hash"): ?"[^"]+"', r"\1:<hash>"),
    (r"\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?\b", "<moment>"),
    (r"\b\d+(?:\.\d+)? (?:s|ms|us|seconds)\b", "<duration>"),
    (r'"pid": ?\d+|process \d+', "<process>"),
    (r"\b\d+(?:\.\d+)? [KMGT]iB\b", "<size>"),
    (r"  +", "  "),
    (r"--+", "--"),
    (r'(seconds"?[:= ]+)\d+(?:\.\d+)?', r"\1<number>"),
)


def normal_form(text: str, *places: Path) -> str:
    """Return a text with a word in place of each value that another run would have differently.

    Args:
        text: What a user sees.
        places: Directories of the run, which become `<place>`.
    """
    for place in sorted(map(str, places), key=len, reverse=True):
        text = text.replace(place, "<place>")
    for pattern, word in _REPLACED:
        text = re.sub(pattern, word, text)
    return text
