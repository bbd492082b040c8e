"""Which workspace a name selects, which exist, and which files of a folder belong to it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Client
from memsyncd.errors import (
    BadConfig,
    BadRequest,
    Conflict,
    MemsyncdError,
    WorkspaceNotFound,
)
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home, Place

    MakePlace = Callable[..., Place]

pytestmark = pytest.mark.shared_daemon


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    return path


@pytest.fixture
def own(make_home: Callable[[], Home]) -> Home:
    return make_home()


def find_by(place: Place, text: str | Path) -> str:
    return str(place.client.call("status", workspace=str(text))["workspaces"][0]["id"])


# --- which is meant ---


def test_a_workspace_is_selected_by_name_by_id_and_by_any_path_within(
    make_place: MakePlace, home: Home
) -> None:
    root = home.make_folder()
    write(root / "src" / "deep" / "main.py", "x")
    place = make_place(root, name="garden")
    for text in (
        "garden",
        place.id,
        root,
        f"{root}/",
        root / "src" / "deep" / "main.py",
        root / "src" / "to" / "be" / "made",
    ):
        assert find_by(place, text) == place.id


def test_without_a_name_the_only_workspace_is_selected_or_an_error_lists_all(
    make_place: MakePlace, home: Home, daemon: Daemon
) -> None:
    client = daemon.client()
    with pytest.raises(WorkspaceNotFound, match="no workspace"):
        client.call("search", query="x")
    first = make_place(home.make_folder(), name="first")
    assert client.call("sync")["workspace"] == first.id
    make_place(home.make_folder(), name="second")
    with pytest.raises(WorkspaceNotFound) as failure:
        client.call("search", query="x")
    assert "first, second" in failure.value.hint
    with pytest.raises(WorkspaceNotFound) as failure:
        client.call("search", query="x", workspace="frist")
    assert "first" in failure.value.hint
    for text in ("/var/tmp", "/a\x00b", "~", "", "*?"):
        with pytest.raises(WorkspaceNotFound):
            client.call("search", query="x", workspace=text)
    with pytest.raises(WorkspaceNotFound):
        client.call("search", query="x", workspace=f"{first.root}er")
    client.close()


def test_a_star_selects_all_workspaces(make_place: MakePlace, home: Home) -> None:
    places = [
        make_place(write(home.make_folder() / "MEMORY.md", f"larch {number}").parent)
        for number in range(3)
    ]
    hits = places[0].client.call("search", query="larch", workspace="*")["hits"]
    assert {hit["workspace"] for hit in hits} == {place.id for place in places}


def test_the_nearest_of_nested_roots_is_selected_and_each_has_its_own_notes(
    make_place: MakePlace, home: Home
) -> None:
    outer = home.make_folder()
    write(outer / "MEMORY.md", "larch outer")
    write(outer / "packages" / "inner" / "MEMORY.md", "larch inner")
    around, within = make_place(outer), make_place(outer / "packages" / "inner")
    assert find_by(around, outer / "packages") == around.id
    assert find_by(around, outer / "packages" / "inner" / "src") == within.id
    assert (
        around.client.call("search", query="larch", workspace=around.id)["hits"][0]["snippet"]
        == "**larch** outer"
    )
    assert [
        hit["snippet"]
        for hit in within.client.call("search", query="larch", workspace=within.id)["hits"]
    ] == ["**larch** inner"]
    write(outer / "packages" / "inner" / "MEMORY.md", "maple")
    within.wait_found("maple", "MEMORY.md")
    assert not around.find("maple", wait="disk")


def test_a_root_beneath_the_memories_of_another_workspace_is_a_workspace_of_its_own(
    make_place: MakePlace, home: Home
) -> None:
    outer = home.make_folder()
    write(outer / ".memories" / "team" / "MEMORY.md", "larch")
    around, within = make_place(outer), make_place(outer / ".memories" / "team")
    assert around.find("larch") == {".memories/team/MEMORY.md"}
    assert within.find("larch") == {"MEMORY.md"}
    write(outer / ".memories" / "team" / "MEMORY.md", "maple")
    around.wait_found("maple", ".memories/team/MEMORY.md")
    within.wait_found("maple", "MEMORY.md")


def test_a_root_named_by_a_link_is_the_folder_of_its_target(
    make_place: MakePlace, home: Home
) -> None:
    root = home.make_folder()
    write(root / "MEMORY.md", "larch")
    link = root.parent / "link"
    link.symlink_to(root)
    place = make_place(link)
    assert place.status()["root"] == str(root)
    assert find_by(place, link) == find_by(place, link / "src") == find_by(place, root) == place.id
    again = place.client.call("workspace.add", path=str(root))["workspaces"][0]
    assert again["id"] == place.id
    write(link / "MEMORY.md", "maple")
    place.wait_found("maple", "MEMORY.md")


def test_methods_take_the_absolute_path_of_a_note(place: Place, make_place: MakePlace) -> None:
    other = make_place(place.home.make_folder())
    full = str(place.root / "MEMORY.md")

    def call(method: str, **params: Any) -> dict[str, Any]:
        answer = place.client.call(method, **params)
        answer.pop("freshness", None)  # a scan may end between two calls
        return answer

    assert call("get", path=full) == call("get", path="MEMORY.md", workspace=place.id)
    assert [note["path"] for note in call("list", path=full)["notes"]] == ["MEMORY.md"]
    for method in ("links", "history", "access.stats"):
        expected = call(method, path="MEMORY.md", workspace=place.id)
        assert call(method, path=full, workspace=str(place.root)) == expected
    for path, workspace, error in (
        (full, other.id, BadRequest),
        ("/etc/hostname", None, WorkspaceNotFound),
        (f"{place.root}/../x.md", None, WorkspaceNotFound),
        (f"{place.root}/.git/x.md", None, MemsyncdError),
    ):
        with pytest.raises(error):
            call("get", path=path, workspace=workspace)


def test_a_memory_is_added_and_promoted_to_a_note_by_its_absolute_path(
    place: Place, make_place: MakePlace
) -> None:
    other = make_place(place.home.make_folder())
    call = place.client.call
    runs = str(place.root / ".memories/2026/runs.md")
    added = call("note.add", content="Larch grows.", kind="summary", note=runs)
    assert added["path"] == ".memories/2026/runs.md"
    source, target = f"{place.root}/{added['anchor']}", str(place.root / "MEMORY.md")
    [promoted] = call("promote", anchor=source, note=target, tag="pattern", apply=True)["promoted"]
    assert (promoted["path"], promoted["source"]) == ("MEMORY.md", added["anchor"])
    assert "Larch grows." in (place.root / "MEMORY.md").read_text()
    with pytest.raises(BadRequest, match="is in the workspace"):
        call("promote", anchor=source, note=str(other.root / "MEMORY.md"), tag="faq", apply=True)
    for workspace in (None, place.id):
        with pytest.raises(MemsyncdError):
            call("note.add", content="Larch grows.", note="/etc/larch.md", workspace=workspace)


# --- coming and going ---


def test_the_list_of_workspaces_survives_a_restart_and_a_damaged_one_is_set_aside_and_reported(
    own: Home,
) -> None:
    stays, goes = own.make_folder(), own.make_folder()
    for root in (stays, goes):
        write(root / "MEMORY.md", "larch")
        write(root / "docs" / "a.md", "maple")
    first = own.start()
    with first.client() as client:
        client.call(
            "workspace.add",
            path=str(stays),
            name="kept",
            include=["docs/*.md"],
            exclude=["docs/b*"],
        )
        gone = client.call("workspace.add", path=str(goes))["workspaces"][0]["id"]
        before = client.call("workspace.list")["workspaces"]
        client.call("search", query="larch", workspace="*", wait="disk")
        client.call("workspace.remove", workspace=gone)
        wait_until(lambda: not (own.folder / "cache" / "memsyncd" / gone).exists())
        assert (own.folder / "state" / "memsyncd" / gone / "records.db").exists()
    assert first.stop() == 0
    second = own.start()
    with second.client() as client:
        assert client.call("workspace.list")["workspaces"] == [
            workspace for workspace in before if workspace["id"] != gone
        ]
        assert client.call("search", query="maple", workspace="kept", wait="disk")["hits"]
    assert (goes / "MEMORY.md").read_text() == "larch\n"
    second.kill()
    file = own.folder / "state" / "memsyncd" / "workspaces.json"
    assert json.loads(file.read_text())["workspaces"]
    file.write_text('{"version": 1, "workspaces": [{"id": 5')
    third = own.start()
    with third.client() as client:
        assert client.call("workspace.list")["workspaces"] == []
        assert "workspaces.damaged" in own.log.read_text()
        client.call("workspace.add", path=str(stays))
        assert client.call("search", query="larch", wait="disk")["hits"]
    assert third.stop() == 0


def test_adding_twice_changes_the_given_fields_and_keeps_the_rest(
    make_place: MakePlace, home: Home
) -> None:
    place = make_place(home.make_folder(), name="garden", include=["docs/*.md"])
    info = place.client.call("workspace.add", path=str(place.root), exclude=["docs/a*"])[
        "workspaces"
    ][0]
    assert (info["id"], info["name"], info["include"], info["exclude"]) == (
        place.id,
        "garden",
        ["docs/*.md"],
        ["docs/a*"],
    )
    other = make_place(home.make_folder())
    with pytest.raises(Conflict, match="garden"):
        place.client.call("workspace.add", path=str(other.root), name="garden")
    with pytest.raises(Conflict):
        place.client.call("workspace.add", path=str(other.root), name=place.id)


def test_two_folders_of_one_name_get_different_names(make_place: MakePlace, home: Home) -> None:
    first, second = make_place(home.make_folder()), make_place(home.make_folder())
    assert first.status()["name"] != second.status()["name"]
    assert find_by(first, first.status()["name"]) == first.id
    assert find_by(first, second.status()["name"]) == second.id


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/", {}),
        ("/nowhere/at/all", {}),
        ("relative", {}),
        ("/etc/passwd", {}),
        ("{root}", {"memory_dir": ".git"}),
        ("{root}", {"preset": "wiki"}),
        ("{root}", {"include": ["../x.md"]}),
        ("{root}\x00", {}),
        ("~nobody-of-this-name/x", {}),
        ("{root}", {"name": "*"}),
        ("{root}", {"name": "red\x1b[31m"}),
        ("{root}", {"name": "x" * 1000}),
        ("{root}" + "/x" * 3000, {}),
    ],
)
def test_an_invalid_workspace_is_refused_with_a_remedy_and_changes_nothing(
    path: str, more: dict[str, Any], home: Home, daemon: Daemon
) -> None:
    root = home.make_folder()
    with daemon.client() as client:
        before = client.call("workspace.list")
        with pytest.raises((BadRequest, BadConfig)) as failure:
            client.call("workspace.add", path=path.format(root=root), **more)
        assert failure.value.hint
        assert client.call("workspace.list") == before


def test_a_folder_of_another_user_is_refused(home: Home, daemon: Daemon) -> None:
    folder = "/usr" if os.geteuid() else str(home.make_folder())
    if not os.geteuid():
        os.chown(folder, 65534, 65534)
    with daemon.client() as client, pytest.raises(MemsyncdError, match="another user"):
        client.call("workspace.add", path=folder)


def test_a_workspace_that_contains_the_socket_is_refused(home: Home, daemon: Daemon) -> None:
    with daemon.client() as client, pytest.raises(MemsyncdError, match="socket"):
        client.call("workspace.add", path=str(home.folder / "run"))


# --- what belongs to it ---


def test_includes_and_excludes_select_the_notes(make_place: MakePlace, home: Home) -> None:
    root = home.make_folder()
    for path in (
        "MEMORY.md",
        "CLAUDE.md",
        "AGENTS.md",
        "docs/a.md",
        "docs/deep/b.md",
        "docs/deep/draft.md",
        "src/c.md",
    ):
        write(root / path, "larch")
    for path in (
        ".memories/a.md",
        ".memories/private/b.md",
        ".memories/c.txt",
        ".memories/d.markdown",
        ".memories/e.py",
    ):
        write(root / path, "larch")
    place = make_place(
        root,
        include=["CLAUDE.md", "docs/**/*.md"],
        exclude=[".memories/private/**", "**/draft.md", ".memories/c.*", "AGENTS.md"],
    )
    wanted = {
        "MEMORY.md",
        "CLAUDE.md",
        "docs/a.md",
        "docs/deep/b.md",
        ".memories/a.md",
        ".memories/d.markdown",
    }
    assert place.notes().keys() == wanted
    for path in (".memories/private/x.md", "docs/deep/draft.md", "AGENTS.md"):
        write(root / path, "maple")
    write(root / "docs" / "new" / "z.md", "maple")
    place.wait_found("maple", "docs/new/z.md")
    assert place.find("maple", wait="disk") == {"docs/new/z.md"}


@pytest.fixture
def configure(home: Home, daemon: Daemon) -> Iterator[Callable[[str], None]]:
    """Use this configuration until the end of the test."""

    def write_config(text: str) -> None:
        n_reloads = home.log.read_text().count("config_reloaded")
        home.config.write_text(text)
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: home.log.read_text().count("config_reloaded") > n_reloads)

    yield write_config
    write_config("")


def test_links_lead_out_only_to_folders_that_the_users_own_configuration_allows(
    home: Home, daemon: Daemon, configure: Callable[[str], None]
) -> None:
    root, shared, other = home.make_folder(), home.make_folder(), home.make_folder()
    write(shared / "shared.md", "larch")
    write(other / "secret.md", "maple")
    (root / ".memories").mkdir()
    (root / ".memories" / "shared.md").symlink_to(shared / "shared.md")
    (root / ".memories" / "secret.md").symlink_to(other / "secret.md")
    (root / "config.toml").write_text(f'[[workspace]]\npath = "{root}"\nallow_links_to = ["/"]\n')
    configure(f'[[workspace]]\npath = "{root}"\nallow_links_to = ["{shared}"]\n')
    with daemon.client() as client:
        assert (
            client.call("search", query="larch", wait="disk")["hits"][0]["path"]
            == ".memories/shared.md"
        )
        assert not client.call("search", query="maple")["hits"]
        assert [(p["path"], p["code"]) for p in client.call("problems")["problems"]] == [
            (".memories/secret.md", "link_outside")
        ]
        assert "secret" not in json.dumps(client.call("list")["notes"])
        write(shared / "shared.md", "hazel")
        wait_found(client, "hazel")
        with pytest.raises(MemsyncdError):
            client.call("get", path=".memories/secret.md")


def wait_found(client: Client, word: str) -> None:
    wait_until(lambda: bool(client.call("search", query=word)["hits"]))
