"""URLs of virtual hosts."""

from urllib.parse import quote


def amqp_url(host: str, port: int, vhost: str) -> str:
    """Return the URL with which the user `guest` opens a virtual host."""
    address = f"[{host}]" if ":" in host else host
    return f"amqp://guest:guest@{address}:{port}/{quote(vhost, safe='')}"
