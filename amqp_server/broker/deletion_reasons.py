"""Why the server deletes something by itself, for the audit log."""

from typing import Final

AUTO_DELETE: Final = "auto-delete"
EXPIRED: Final = "expired"
OWNER_GONE: Final = "its connection has ended"
UNSAVED: Final = "the disk refused its definition"
