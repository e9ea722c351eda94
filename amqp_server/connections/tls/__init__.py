"""TLS of the clients' connections.

One file for each concept: `settings` and `configured` (what the operator asks for),
`certificate_files` (what a file says), `contexts` (what a handshake uses), `reloading` (new files
while the server runs), `connection` (encrypts one connection, without a task, and logs why a
handshake failed), `transport` (what the connection writes to), `handshake_queue` (limits the
handshakes' time in a turn), `peer_certificate` and `description` (what is known of a client by
TLS).
"""
