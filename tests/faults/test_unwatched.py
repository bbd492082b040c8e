"""The system gives no watch, or no way to watch: it is reported, and reconciles find saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon.conftest import wait_until
from tests.faults.conftest import connect
from tests.programs import succeeds

if TYPE_CHECKING:
    from tests.daemon.conftest import Home
    from tests.faults.conftest import Launch

OWN_USERS = ["unshare", "--user", "--map-root-user"]
# The limits of the test's own namespace, and their names in the system's namespace.
LIMITS = {"max_inotify_watches": "max_user_watches", "max_inotify_instances": "max_user_instances"}


def limit_to_none(limit: str) -> list[str]:
    return [*OWN_USERS, "sh", "-c", f'echo 0 > /proc/sys/user/{limit} && exec "$@"', "sh"]


def is_limit_ours() -> bool:
    return succeeds(*limit_to_none(next(iter(LIMITS))), "true")


@pytest.mark.skipif(
    not is_limit_ours(), reason="needs Linux with user namespaces, to limit nobody else's watches"
)
@pytest.mark.parametrize("limit", LIMITS)
def test_without_any_watch_saves_are_found_by_reconciles_with_a_reported_reason(
    own: Home, launch: Launch, limit: str
) -> None:
    root = own.make_folder()
    (root / "MEMORY.md").write_text("larch\n")
    launch(own, limit_to_none(limit))
    with connect(own) as client:
        client.call("workspace.add", path=str(root))

        def status() -> dict[str, Any]:
            return dict(client.call("status")["workspaces"][0])

        wait_until(
            lambda: any(LIMITS[limit] in reason for reason in status()["reasons"]),
            "the limit is not named",
        )
        wait_until(lambda: status()["state"] == "degraded", "it is called ready")
        assert status()["watcher"] == "timed"
        for word in ("maple", "hazel"):
            (root / "MEMORY.md").write_text(f"{word}\n")
            wait_until(
                lambda word=word: bool(client.call("search", query=word)["hits"]),
                "reconciles did not find it",
            )
        (root / "MEMORY.md").write_text("rowan\n")
        assert client.call("search", query="rowan", wait="disk")["hits"]
        assert status()["state"] == "degraded"
