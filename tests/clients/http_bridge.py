"""A TCP port in front of the daemon's socket, for foreign test suites that need a URL.

It only copies bytes, so each answer by HTTP is the daemon's own.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    # The other direction ends, too, so that no side waits for a side that is gone.
    for sock in (source, target):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _relay(client: socket.socket, path: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect(path)
        answers = threading.Thread(target=_copy, args=(daemon, client), daemon=True)
        answers.start()
        _copy(client, daemon)
        answers.join()


def _serve(listener: socket.socket, path: str) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_relay, args=(client, path), daemon=True).start()


@contextlib.contextmanager
def serve_port(path: str) -> Iterator[str]:
    """The URL of a port that leads to this socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, path), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
