"""Read what the source of a declaration says of each field."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import msgspec

from memsyncd.operations.fields import FIELD_DOCS


def read_comments(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return what the struct's source says of each of its own fields: in `#` lines above it, or in
    a string below it.
    """
    source = textwrap.dedent(inspect.getsource(struct))
    lines = source.splitlines()
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        above: list[str] = []
        for line in reversed(lines[: node.lineno - 1]):
            if not (comment := re.fullmatch(r"\s*# (.*)", line)):
                break
            above.insert(0, comment[1])
        found[node.target.id] = " ".join(above)
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            found[node.target.id] += str(following.value.value)
    return found


def read_field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstring of each field on one line, inherited ones included."""
    docs = {name: FIELD_DOCS.get(name, "") for name in struct.__struct_fields__}
    for base in reversed(struct.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            own = read_comments(base)
            docs |= {name: " ".join(text.split()) for name, text in own.items() if text}
    return docs
