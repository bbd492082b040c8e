"""Read the comments of a struct's fields from its source."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import msgspec


def read_comments(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return what the struct's source says of each field: in `#` lines above or a string below."""
    source = textwrap.dedent(inspect.getsource(struct))
    lines = source.splitlines()
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        above = []
        for line in reversed(lines[: node.lineno - 1]):
            if not (comment := re.fullmatch(r"\s*# (.*)", line)):
                break
            above.insert(0, comment[1])
        found[node.target.id] = " ".join(above)
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            found[node.target.id] += str(following.value.value)
    return found
