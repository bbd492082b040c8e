"""No view of the panel asks for answers, or makes elements, that grow with the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.daemon.conftest import wait_until
from tests.growing import SECTIONS_A_NOTE, write_notes
from tests.panel.chromium import PROGRAM, VIEWS, measure_view, open_page, running_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from memsyncd.client import Client
    from tests.daemon.conftest import Daemon, Home

pytest.importorskip("playwright.sync_api", reason="not installed: playwright")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="not installed: chromium")
N_SECTIONS = (1_000, 10_000)
INDEX_S = 300.0
MOST = 1.3
"""A view that has so many times as much in the larger workspace grows with it."""
LEAST_ELEMENTS, LEAST_BYTES = 1_000, 40_000
"""So much may come from pages that the smaller workspace does not fill."""


@pytest.fixture(scope="module")
def page(daemon: Daemon) -> Iterator[Page]:
    with running_browser() as browser, daemon.client() as client:
        yield open_page(browser, client, viewport={"width": 1280, "height": 800})


@pytest.fixture(scope="module")
def workspaces(home: Home, daemon: Daemon) -> list[str]:
    ids = []
    for n_sections in N_SECTIONS:
        root = home.make_folder()
        write_notes(root, n_sections // SECTIONS_A_NOTE)
        with daemon.client() as client:
            ids.append(client.call("workspace.add", path=str(root))["workspaces"][0]["id"])
            wait_until(lambda: is_ready(client), "it never became ready", limit_s=INDEX_S)
    return ids


def is_ready(client: Client) -> bool:
    """True if all workspaces are indexed."""
    listed = client.call("status")["workspaces"]
    return all(each["state"] == "ready" and not each["pending"] for each in listed)


@pytest.mark.parametrize("case", VIEWS)
def test_a_view_has_no_more_in_a_larger_workspace(
    case: str, page: Page, workspaces: list[str]
) -> None:
    small, large = (measure_view(page, case, workspace) for workspace in workspaces)
    print(f"\n{case}: {small} and {large}")
    assert large.n_elements <= max(MOST * small.n_elements, LEAST_ELEMENTS)
    assert large.n_bytes <= max(MOST * small.n_bytes, LEAST_BYTES)
