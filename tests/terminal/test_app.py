"""Stories of a person in the terminal view, with a real daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

pytest.importorskip("textual", reason="not installed: textual (pip install 'memsyncd[terminal]')")

from memsyncd.terminal.terminal import clean
from tests.terminal.conftest import Screen, show

if TYPE_CHECKING:
    from pathlib import Path

    from tests.daemon.conftest import Place

pytestmark = [pytest.mark.life, pytest.mark.shared_daemon]

DECISIONS = ".memories/decisions.md"


def save(place: Place, path: str, text: str, word: str) -> None:
    """Write a note and wait until it is found."""
    (place.root / path).write_text(text)
    place.wait(lambda: path in place.find(word), f"{path} was not found")


def test_a_question_finds_while_it_is_typed_and_the_hit_opens_at_its_lines(place: Place) -> None:
    text = "# Decisions\n\n" + "filler\n\n" * 40 + "## Pool\n\nOtters hold 50 sockets.\n"
    save(place, DECISIONS, text, "otters")

    async def scenario(screen: Screen) -> None:
        await screen.type("otters so")
        await screen.wait_shown("1 hit", f"{DECISIONS}:83-85", "Decisions › Pool")
        await screen.type("ckets")
        await screen.press("enter")
        await screen.wait_shown("85 lines", "Otters hold 50 sockets.")
        await screen.press("m")
        await screen.wait_shown("85▌ Otters hold 50 sockets.")
        await screen.press("escape")
        await screen.wait_shown("1 hit", "otters sockets")

    show(place.env, place.id, scenario)


def test_a_question_without_a_hit_says_why_and_offers_a_correction(place: Place) -> None:
    save(place, DECISIONS, "# Pool\n\nOtters hold sockets.\n", "otters")

    async def scenario(screen: Screen) -> None:
        await screen.type("ottrs")
        await screen.wait_shown("nothing found", "did you mean otters")
        await screen.press("ctrl+y")
        await screen.wait_shown("1 hit", DECISIONS)
        await screen.press("ctrl+u")
        await screen.type("otters " * 200)
        await screen.wait_shown("1 hit", "1,021 of 1,400 characters count")
        await screen.press("ctrl+u")
        await screen.type("otters -mice")
        await screen.wait_gone("characters count")
        await screen.wait_shown("1 hit", "excluded: -mice")

    show(place.env, place.id, scenario)


def test_notes_are_a_tree_and_follow_saves(place: Place) -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("tab", "2")
        await screen.wait_shown(".memories", "context.md", "MEMORY.md")
        await screen.press("down", "enter")
        await screen.wait_shown("bystander")
        (place.root / ".memories" / "context.md").write_text("# Context\n\nnewcomer\n")
        await screen.wait_shown("newcomer")
        await screen.press("escape")
        (place.root / ".memories" / "added.md").write_text("# Added\n")
        await screen.wait_shown("added.md")
        (place.root / ".memories" / "added.md").unlink()
        await screen.wait_gone("added.md")

    show(place.env, place.id, scenario)


@pytest.mark.parametrize("path", [DECISIONS, ".memories/c#.md"])
def test_links_problems_and_sections_of_a_note_are_a_list_that_leads_on(
    place: Place, path: str
) -> None:
    save(place, path, "# Pool\n\nOtters [[context]] and [[nowhere]].\n\n## Deep\n", "otters")
    first = f"# Memory\n\nSee [the pool]({quote(path)}).\n"
    save(place, "MEMORY.md", first, "pool")

    async def scenario(screen: Screen) -> None:
        await screen.type("otters")
        await screen.wait_shown(path)
        await screen.press("enter")
        await screen.wait_shown("1 backlink ")
        await screen.press("i")
        await screen.wait_shown("MEMORY.md#memory:3", "line 3: no such note", "Deep", "Sections")
        await screen.press("enter")
        await screen.wait_shown("See the pool.", "3 lines")
        await screen.press("i")
        await screen.wait_shown("Links")
        await screen.press("enter")
        await screen.wait_shown("Otters [[context]]")
        await screen.press("escape", "escape")
        await screen.wait_shown("Otters [[context]]")

    show(place.env, place.id, scenario)


def test_a_change_is_shown_and_undone_after_a_question(place: Place) -> None:
    path = place.root / DECISIONS
    place.client.call("note.add", content="Otters.", note=DECISIONS, workspace=place.id)
    before = path.read_text()
    place.client.call("note.add", content="Badgers.", note=DECISIONS, workspace=place.id)

    async def scenario(screen: Screen) -> None:
        await screen.press("tab", "3")
        await screen.wait_shown(DECISIONS, "note.add")
        await screen.press("enter")
        await screen.wait_shown("+Badgers.")
        await screen.press("u")
        await screen.wait_shown("Undo this change?", "the undo can be undone")
        await screen.press("escape")
        await screen.wait_gone("Undo this change?")
        assert "Badgers" in path.read_text()
        await screen.press("u")
        await screen.wait_shown("Undo this change?")
        await screen.press("y")
        await screen.wait(lambda: path.read_text() == before, "it was not undone")
        await screen.press("escape")
        await screen.wait_shown("undo ")

    show(place.env, place.id, scenario)


def test_an_undo_of_another_programs_note_says_that_it_deletes_the_file(place: Place) -> None:
    path = place.root / DECISIONS
    save(place, DECISIONS, "# Otters\n", "otters")
    place.wait(lambda: place.client.call("history", workspace=place.id)["revisions"], "no history")

    async def scenario(screen: Screen) -> None:
        await screen.press("tab", "3")
        await screen.wait_shown(DECISIONS, "create")
        await screen.press("u")
        await screen.wait_shown(f"it deletes the file: {DECISIONS}")
        await screen.press("escape")
        await screen.wait_gone("Undo this change?")
        assert path.exists()
        await screen.press("u")
        await screen.wait_shown("Undo this change?")
        await screen.press("y")
        await screen.wait(lambda: not path.exists(), "it was not undone")

    show(place.env, place.id, scenario)


def test_an_undo_that_would_be_refused_says_why_before_and_after(place: Place) -> None:
    for word in ("Otters", "Badgers"):
        place.client.call("note.add", content=word, note=DECISIONS, workspace=place.id)
    [later, *_] = place.client.call("history", workspace=place.id, path=DECISIONS)["revisions"]

    async def scenario(screen: Screen) -> None:
        await screen.type("otters")
        await screen.wait_shown(DECISIONS)
        await screen.press("enter")
        await screen.wait_shown("Otters", "saved")
        await screen.press("h")
        await screen.wait_shown(f"Changes of {DECISIONS}", "note.add")
        await screen.press("down", "u")
        await screen.wait_shown("It would be refused", f"by {later['revision']}: undo these first")
        await screen.press("y")
        await screen.wait_shown("has changed since change", "→ undo the later changes first")
        assert "Badgers" in (place.root / DECISIONS).read_text()

    show(place.env, place.id, scenario)


def test_the_status_is_live_and_names_problems_with_their_remedies(place: Place) -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("tab", "4")
        await screen.wait_shown(f"● {place.root.name}", "ready", "generation", "pid")
        bad = "# Odd\n\nturned \u202e text\n"
        (place.root / ".memories" / "odd.md").write_text(bad)
        await screen.wait_shown(".memories/odd.md:3", "→ ", "1 problem")

    show(place.env, place.id, scenario, size=(100, 50))


STEERING = "\x1b[5m\x1b]0;x\x07\x1b]8;;x:y\x1b\\\x9b2J\x85\x7f\b\v\f\u202e\u2066\u200f\ufeff"
HOSTILE = f"""---
kind: "odd"
tags: ["t{STEERING.replace(chr(92), "")}"]
---
# Larch {STEERING} [red]head[/red]

larch {STEERING} [link=file:///x]y[/link] [@click=app.quit]z[/] <b>tag</b> [web](x:{STEERING})

> > > > > > > > > > > > > > > > > > > > > > > > > > > > > > deep larch

| {" | ".join("abcdefgh")} |
|{"---|" * 8}
| [bold]larch |

```[red]
[/] {STEERING}
```
- [ ] {STEERING} [[{STEERING}]]
"""


def test_no_text_of_a_note_steers_the_terminal_and_none_is_markup(place: Place) -> None:
    name = f".memories/odd{STEERING.replace('/', '')}[red].md"
    save(place, name, HOSTILE, "larch")
    (place.root / name).write_text(HOSTILE + STEERING)

    def check(screen: Screen) -> None:
        for strip in screen.read_strips():
            for segment in strip:
                assert segment.text == clean(segment.text).replace("\n", "")
                assert not (segment.style and segment.style.link)

    async def scenario(screen: Screen) -> None:
        await screen.type("larch")
        await screen.wait_shown("[red]head[/red]")
        check(screen)
        await screen.press("enter")
        await screen.wait_shown("[red]head[/red]", "[link=file:///x]y[/link]", "<b>tag</b>")
        check(screen)
        await screen.press("m")
        await screen.wait_shown("[@click=app.quit]z[/]")
        check(screen)
        await screen.press("i")
        await screen.wait_shown("Sections", "[red]head[/red]")
        check(screen)
        for key, text in (("2", "odd"), ("3", "Changes"), ("4", "[red].md")):
            await screen.press(key)
            await screen.wait_shown(text)
            check(screen)

    show(place.env, place.id, scenario, size=(100, 60))


def test_long_notes_and_lines_of_a_megabyte_are_read_in_all_forms(place: Place) -> None:
    text = "# Wide\n\n" + "zebra " * 170_000 + "\n\n" + "字" * 20_000 + "\n\nlast zebra\n"
    save(place, DECISIONS, text, "zebra")
    sections = "".join(f"## H{at}\n\nquagga *{at}*\n\n- a\n- b\n\n" for at in range(2_000))
    save(place, ".memories/long.md", sections, "quagga")

    async def scenario(screen: Screen) -> None:
        await screen.type("zebra")
        await screen.wait_shown(DECISIONS)
        await screen.press("enter")
        await screen.wait_shown("zebra zebra", "7 lines")
        await screen.press("m", "end")
        await screen.wait_shown("7  last zebra")
        await screen.press("slash", "ctrl+u")
        await screen.type("1999 path:long.md")
        await screen.wait_shown("long.md")
        await screen.press("enter")
        await screen.wait_shown("14,000 lines")
        await screen.press("m")
        await screen.wait_shown(" of 14,000", "quagga")
        await screen.press("n", "p")
        await screen.wait_shown("quagga")

    show(place.env, place.id, scenario)


def test_several_workspaces_are_searched_and_chosen(
    place: Place, root: Path, make_place: object
) -> None:
    other = root.parent / "second"
    other.mkdir()
    (other / "MEMORY.md").write_text("# Other\n\notters elsewhere\n")
    save(place, DECISIONS, "# Pool\n\nOtters.\n", "otters")
    second = make_place(other)  # type: ignore[operator]
    second.wait_found("elsewhere", "MEMORY.md")

    async def scenario(screen: Screen) -> None:
        await screen.type("otters")
        await screen.wait_shown("1 hit", "ready")
        # As before the first status, which may come after the first hits.
        session = screen.app._session
        session.status = {**session.status, "workspaces": []}
        await screen.press("tab", "w")
        await screen.wait_shown("all workspaces")
        await screen.press("home", "enter")
        await screen.wait_shown("2 hits", "second MEMORY.md", "all ·")
        hits = screen.read()
        last = "Other" if hits.index("second MEMORY.md") > hits.index(DECISIONS) else "Pool"
        await screen.press("end", "enter")
        await screen.wait_shown("3 lines", last)

    show(place.env, place.id, scenario)
