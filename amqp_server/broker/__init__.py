"""The broker: what exists, where messages go, who gets them. No sockets, no octets of frames."""
