"""Recorded messages of clients that others wrote, as texts with one line of JSON a message.

`pytest -m clients` with MEMSYNCD_TRANSCRIPTS=write records them again. Paths and ids are neutral.
The clients' own data in `_meta` is cut to the keys that the protocol knows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

TRANSCRIPTS = Path(__file__).parent / "transcripts"
ROOT = "/project"
KNOWN_META = ("progressToken", "io.modelcontextprotocol/")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_kept_up() -> bool:
    return os.environ.get("MEMSYNCD_TRANSCRIPTS") == "write"


def write_transcript(path: Path, connections: Iterable[Sequence[bytes]], root: Path) -> None:
    """Keep the messages of the connection with the client's MCP."""
    chosen = max(connections, key=lambda lines: sum(b'"tools/' in line for line in lines))
    messages = [trim(json.loads(line.decode().replace(str(root), ROOT))) for line in chosen]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(message)}\n" for message in messages))


def trim(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    if isinstance(params, dict) and isinstance(params.get("_meta"), dict):
        meta = {
            name: value for name, value in params["_meta"].items() if name.startswith(KNOWN_META)
        }
        message = {**message, "params": {**params, "_meta": meta}}
    text = _UUID.sub("00000000-0000-4000-8000-000000000000", json.dumps(message))
    return dict(json.loads(text))


def read_transcript(path: Path, root: Path) -> list[dict[str, Any]]:
    lines = path.read_text().replace(ROOT, str(root)).splitlines()
    return [json.loads(line) for line in lines]
