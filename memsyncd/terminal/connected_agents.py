"""The agents whose files `memsyncd integrate` has written, by its records in the state folder."""

from __future__ import annotations

import os

from memsyncd.client.connection import parse_json
from memsyncd.dirs import find_user_dirs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def find_integrate_dir(env: Mapping[str, str]) -> str:
    """Return the folder of the records: for each file a copy, and facts as JSON."""
    return f"{find_user_dirs(env).state_dir}/integrate"


def list_connected_agents(env: Mapping[str, str]) -> list[str]:
    """Return the names of the agents, sorted. A record that cannot be read names none."""
    folder, names = find_integrate_dir(env), set[str]()
    try:
        files = [name for name in os.listdir(folder) if name.endswith(".json") and "-" not in name]
    except OSError:
        return []
    for name in files:
        try:
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                facts: Any = parse_json(file.read())
                names.add(str(facts.get("agent", "")))
        except (OSError, ValueError, AttributeError):
            continue
    return sorted(names - {""})
