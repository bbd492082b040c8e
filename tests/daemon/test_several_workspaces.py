"""Searches and contexts of several workspaces, and the user-wide one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Memsyncd
from memsyncd.errors import Conflict, WorkspaceNotFound
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

    MakePlace = Callable[..., Place]

pytestmark = pytest.mark.shared_daemon

API = "# Database\n<!-- memory: {keywords: [pg]} -->\n\nPostgres, because of its row locks.\n"
WEB = "# Deploy\n<!-- memory: {keywords: [pg]} -->\n\nBlue and green; Postgres is migrated first.\n"


@pytest.fixture
def places(make_place: MakePlace, home: Home) -> list[Place]:
    made: list[Place] = []
    for text in (API, WEB):
        root = home.make_folder()
        (root / "MEMORY.md").write_text(text)
        made.append(make_place(root))
        made[-1].wait_found("postgres", "MEMORY.md")
    return made


def ask(places: list[Place], method: str, workspace: object, **params: Any) -> Any:
    answer = places[0].client.call(method, workspace=workspace, **params)
    return {name: value for name, value in answer.items() if name not in ("took_ms", "freshness")}


def test_a_list_of_workspaces_is_searched_as_one_and_each_hit_names_its_own(
    places: list[Place],
) -> None:
    ids = [place.id for place in places]
    answer = ask(places, "search", ids, query="postgres")
    assert {hit["workspace"] for hit in answer["hits"]} == set(ids)
    assert [
        (workspace["id"], workspace["root"], workspace["failure"])
        for workspace in answer["workspaces"]
    ] == [(place.id, str(place.root), None) for place in places]
    paths = [str(place.root / "MEMORY.md") for place in places]
    assert ask(places, "search", paths, query="postgres")["hits"] == answer["hits"]
    assert {hit["workspace"] for hit in ask(places, "search", "*", query="postgres")["hits"]} >= {
        *ids
    }
    with pytest.raises(WorkspaceNotFound):
        ask(places, "search", [*ids, "nowhere"], query="postgres")


def test_a_list_of_one_workspace_answers_like_the_workspace(places: list[Place]) -> None:
    for method in ("search", "context"):
        for query in ("postgres", "zebra"):
            one, listed = (
                ask(places, method, workspace, query=query)
                for workspace in (places[0].id, [places[0].id])
            )
            assert one == listed


def test_a_note_of_a_workspace_within_another_is_found_once(
    make_place: MakePlace, home: Home
) -> None:
    root = home.make_folder()
    (root / "inner").mkdir()
    (root / "MEMORY.md").write_text("# Outer\n\nPostgres outside.\n")
    (root / "inner" / "MEMORY.md").write_text(API)
    outer = make_place(root, preset="vault")
    outer.wait_found("locks", "inner/MEMORY.md")
    inner = make_place(root / "inner", preset="vault")
    inner.wait_found("locks", "MEMORY.md")
    both = [outer, inner]
    hits = ask(both, "search", [outer.id, inner.id], query="postgres")["hits"]
    assert {(hit["workspace"], hit["path"]) for hit in hits} == {
        (outer.id, "MEMORY.md"),
        (inner.id, "MEMORY.md"),
    }
    for query in ("postgres", ""):
        answer = ask(both, "context", [outer.id, inner.id], query=query, max_tokens=300)
        assert answer["text"].count("row locks") == 1
        assert answer["text"].count("Postgres outside") == 1
    assert ask(both, "search", [outer.id], query="locks")["hits"]


def test_a_context_of_several_workspaces_labels_each(places: list[Place]) -> None:
    ids = [place.id for place in places]
    for query in ("postgres", ""):
        answer = ask(places, "context", ids, query=query, max_tokens=300)
        assert {part["workspace"] for part in answer["included"]} == set(ids)
        for place in places:
            assert f"[{place.status()['name']}] MEMORY.md" in answer["text"]
        assert answer["tokens"] <= 300


def test_a_link_to_another_workspace_is_listed_read_and_does_not_dangle(
    places: list[Place],
) -> None:
    one, two = places
    words = [sys.executable, "-m", "memsyncd"]
    with Memsyncd(one.id, env=one.env) as memory:
        error = memory.add("It locks up.", summary="Locks", kind="error")
        memory.relate(error["anchor"], "resolved_by", f"{two.id}:MEMORY#Deploy")
        assert f"- resolved_by [[{two.id}:MEMORY.md#Deploy]]" in memory.get(error["anchor"])["text"]
        [link] = memory.links(error["anchor"], relation="resolved_by")["links"]
        assert link["elsewhere"]["workspace"] == two.id
        assert link["elsewhere"]["to"] == "MEMORY.md#deploy"
        memory.add(f"See [[{two.id}:absent]].", summary="Gone")
    assert f"[{two.status()['name']}] {two.root}/MEMORY.md#deploy" in one.run(
        *words, "links", error["anchor"], "--out", "-w", one.id
    )
    dangling = one.run(*words, "links", "--dangling", "-w", one.id)
    assert f"[[{two.id}:absent]]" in dangling
    assert "Deploy" not in dangling
    assert "Blue and green" in one.run(*words, "get", f"{two.id}:MEMORY#Deploy", "-w", one.id)


# --- the user-wide workspace ---


@pytest.fixture
def user_wide(home: Home, place: Place, make_place: MakePlace) -> Place:
    root = home.make_folder()
    (root / ".memories").mkdir()
    (root / ".memories" / "me.md").write_text(
        "# Me\n\n## Language\n<!-- memory: {kind: preference} -->\n\nAnswer in German.\n\n"
        "## Birthday\n\nIn May.\n"
    )
    made = make_place(root, user=True)
    made.wait_found("german", ".memories/me.md")
    return made


def test_preferences_of_the_user_wide_workspace_join_every_context_with_a_label(
    place: Place, user_wide: Place
) -> None:
    for query in ("", "zebra"):
        answer = place.client.call("context", workspace=place.id, query=query)
        assert "[user-wide] .memories/me.md:3-6\nAnswer in German." in answer["text"]
        assert "Birthday" not in answer["text"]
        assert answer["workspaces"][-1]["id"] == user_wide.id
        without = place.client.call("context", workspace=place.id, query=query, user=False)
        assert "German" not in without["text"]
    assert place.client.call("context", workspace=place.id, query="zebra", user=False)["why_empty"]


def test_the_configuration_names_the_user_wide_workspace_of_a_running_daemon(own: Home) -> None:
    roots = [own.make_folder(), own.make_folder()]
    for root, text in zip(roots, ("larch", "# Rules\n\nAnswer in German.\n"), strict=True):
        (root / "MEMORY.md").write_text(text)
    rows = f'[[workspace]]\npath = "{roots[0]}"\n[[workspace]]\npath = "{roots[1]}"\n'
    config = own.config.read_text()
    own.config.write_text(f'{config}{rows}name = "me"\n')
    with own.start().client() as client:

        def read_context() -> str:
            return str(client.call("context", workspace=str(roots[0]), query="larch")["text"])

        wait_until(lambda: "larch" in read_context(), "not indexed")
        assert "German" not in read_context()
        own.config.write_text(f'{config}{rows}name = "me"\nuser = true\n')
        wait_until(lambda: "[user-wide]" in read_context(), "not reloaded")
        assert "Answer in German." in read_context()


def test_the_user_wide_workspace_is_not_doubled_in_its_own_context(user_wide: Place) -> None:
    text = user_wide.client.call("context", workspace=user_wide.id)["text"]
    assert text.count("Answer in German.") == 1
    assert "user-wide" not in text


def test_the_user_wide_workspace_has_a_quarter_of_the_room_at_most(
    place: Place, user_wide: Place
) -> None:
    rule = f"\n<!-- memory: {{kind: preference}} -->\n\n{'x ' * 60}\n\n"
    many = "".join(f"## Rule {number}{rule}" for number in range(20))
    (user_wide.root / ".memories" / "rules.md").write_text(many)
    user_wide.wait_found("rule", ".memories/rules.md")
    full = "".join(f"## Fact {n}\n\n{'y ' * 60}\n\n" for n in range(60))
    (place.root / "MEMORY.md").write_text(full)
    place.wait_found("fact", "MEMORY.md")
    answer = place.client.call("context", workspace=place.id, max_tokens=1000)
    assert answer["tokens"] <= 1000
    of_user = [part for part in answer["included"] if part["workspace"] == user_wide.id]
    assert of_user
    assert len(of_user) < len(answer["included"]) / 2


def test_there_is_one_user_wide_workspace_and_no_name_means_another(
    place: Place, user_wide: Place, home: Home
) -> None:
    root = home.make_folder()
    with pytest.raises(Conflict):
        place.client.call("workspace.add", path=str(root), user=True)
    listed = place.client.call("workspace.list")["workspaces"]
    assert [info["id"] for info in listed if info["user"]] == [user_wide.id]


def run(env: dict[str, str], folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "memsyncd", *words]
    done = subprocess.run(command, env=env, cwd=folder, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


def test_init_of_a_user_wide_memory_makes_its_first_notes(
    make_home: Callable[[], Home], tmp_path: Path
) -> None:
    own = make_home()
    daemon = own.start()
    project = own.make_folder()
    (project / "MEMORY.md").write_text(API)
    data = tmp_path / "data"
    env = {**own.env, "XDG_DATA_HOME": str(data)}
    with daemon.client() as client:
        client.call("workspace.add", path=str(project))
        run(env, project, "init", "--user")
        run(env, project, "remember", "Answer in German.", "-w", "user", "--kind", "preference")
        assert (data / "memsyncd/user/MEMORY.md").exists()
        assert "German" in run(env, project, "context")
        assert "German" not in run(env, project, "context", "--no-user")
        # A folder without a workspace still means the only other workspace.
        assert client.call("status", workspace=str(project))["workspaces"]
        assert client.call("context", query="")["workspaces"][0]["root"] == os.path.realpath(
            project
        )
