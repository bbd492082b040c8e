"""Do the types that programs are checked against say what the daemon takes and gives?"""

from __future__ import annotations

from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from memsyncd.client import answers
from memsyncd.wire import params, results, writing

GIVEN = [name for name in vars(answers) if hasattr(results, name) or hasattr(writing, name)]
TAKEN = {"NewSection": writing.NewSection, "Filters": params.Filters, "MemoryCommand": writing.MemoryParams}
UNSAID = {"MemoryCommand": {"command", "client", "workspace", "timeout_ms"}}
"""What `Memsyncd` says by itself."""


def name_type(kind: Any) -> str:
    """A type as a word that is the same for a struct and for a dictionary with its shape."""
    if get_origin(kind) in (list, dict):
        return f"{get_origin(kind).__name__}[{', '.join(map(name_type, get_args(kind)))}]"
    if get_args(kind):
        return " | ".join(sorted(map(name_type, get_args(kind))))
    return str(kind.__name__)


@pytest.mark.parametrize("name", [name for name in GIVEN if name not in TAKEN and isinstance(vars(answers)[name], type)])
def test_an_answer_has_the_shape_that_it_has_on_the_wire(name: str) -> None:
    struct = getattr(results, name, None) or getattr(writing, name)
    wire = {field.encode_name: name_type(field.type) for field in msgspec.structs.fields(struct)}
    assert {key: name_type(kind) for key, kind in get_type_hints(vars(answers)[name]).items()} == wire


@pytest.mark.parametrize("name", TAKEN)
def test_what_may_be_said_is_what_the_daemon_takes(name: str) -> None:
    said = get_type_hints(vars(answers)[name]).keys() | UNSAID.get(name, set())
    assert said == {field.encode_name for field in msgspec.structs.fields(TAKEN[name])}
