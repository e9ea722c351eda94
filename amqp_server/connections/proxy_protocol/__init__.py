"""The PROXY protocol: a trusted proxy says for which client it connects.

`header` reads the octets, `trusted` decides whom to believe, `connection` reads a socket.

Source: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt
"""
