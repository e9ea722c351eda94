"""The process that started this one, noted before the long imports: it may end during them."""

import os
from typing import Final

PARENT: Final = os.getppid()
"""Process id of the parent when this process began."""
