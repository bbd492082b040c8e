"""A socket between a client and the daemon that records what the client sends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Recorder:
    """`connections` has, for each connection in order, the lines that the client sent."""

    def __init__(self, path: str, daemon_path: str) -> None:
        self.path, self._daemon_path = path, daemon_path
        self.connections: list[list[bytes]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                daemon = socket.socket(socket.AF_UNIX)
                daemon.connect(self._daemon_path)
                self._sockets += [client, daemon]
                lines: list[bytes] = []
                self.connections.append(lines)
                self._copy(client, daemon, lines)
                self._copy(daemon, client, None)

    def _copy(
        self, source: socket.socket, target: socket.socket, lines: list[bytes] | None
    ) -> None:
        threading.Thread(target=copy_lines, args=(source, target, lines), daemon=True).start()


def copy_lines(source: socket.socket, target: socket.socket, lines: list[bytes] | None) -> None:
    with contextlib.suppress(OSError):
        for line in source.makefile("rb"):
            if lines is not None:
                lines.append(line)
            target.sendall(line)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def record(path: str, daemon_path: str) -> Iterator[Recorder]:
    recorder = Recorder(path, daemon_path)
    try:
        yield recorder
    finally:
        recorder.close()
