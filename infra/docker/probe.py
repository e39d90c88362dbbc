"""`python3 -ISB probe.py PORT PATH`: exit 0 when HTTP on this container's loopback answers 200.

A health check runs beside measurements: one bare socket costs a tenth of what an HTTP library's import does.
"""

import socket
import sys

TIMEOUT_S = 3.0


def main(port: int, path: str) -> int:
    """The exit status."""
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError as error:
        print(f"port {port}: {error}")
        return 1
    return 0 if answer.split(b" ", 2)[1:2] == [b"200"] else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
