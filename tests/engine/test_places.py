"""Each name of a section that a command prints leads back to this section: on a real index."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.engine.metadata import name_note
from memsyncd.engine.places import NamedPlace, find_named_place, name_target, resolve_names
from memsyncd.errors import BadRequest
from memsyncd.headings import name_section
from memsyncd.operations.fields import make_short_id
from memsyncd.operations.notes.declare import GetParams
from memsyncd.store.pool import Reader
from memsyncd.store.sections import StoredSection, read_sections_of

NOTE = ".memories/redis.md"
numbers = itertools.count()
HEADINGS = st.sampled_from(
    ["Timeouts", "timeouts", "Redis", "C# tips", "a › b", "b", "10:12", "x/y", "web-2", "Ёлка"]
)
SECTIONS = st.lists(st.tuples(st.integers(1, 3), HEADINGS), min_size=1, max_size=5)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=settings().max_examples // 2,
)
@given(SECTIONS, st.booleans())
def test_each_name_that_is_printed_leads_to_its_section(
    make_bench: Callable[..., Any], sections: list[tuple[int, str]], is_titled: bool
) -> None:
    bench = make_bench(f"project-{next(numbers)}")
    bench.open()
    top = "---\ntitle: Redis cluster\n---\n" if is_titled else ""
    bench.write(NOTE, top + "".join(f"{'#' * n} {text}\n\nlarch\n\n" for n, text in sections))
    bench.write(".memories/other.md", "# Other\n\n## Timeouts\n\nbeech\n")
    bench.sync()
    workspace = bench.workspace
    with workspace.acquire(5) as reader:
        for section in read_sections_of(reader, NOTE):
            for name in list_printed(reader, section):
                try:
                    place = find_named_place(reader, workspace.scope, name)
                    named = resolve_names(workspace, GetParams(anchor=name), ("anchor", "path"))
                except BadRequest as refusal:
                    places = {*refusal.data["candidates"]} & {section.anchor}
                else:
                    places = {place.anchor or place.path, named.anchor or named.path}
                # The name of the first section may be the name of the note.
                assert set() < places <= {section.anchor, NOTE}, name


def list_printed(reader: Reader, section: StoredSection) -> Iterator[str]:
    span = section.span
    yield section.anchor
    yield f"{NOTE}:{span.start}-{span.end}"
    yield make_short_id(section.anchor)
    if section.heading:
        yield name_section(name_note(section), section.heading)
        yield name_target(reader, NamedPlace(NOTE, section.anchor, section.heading[-1]))
