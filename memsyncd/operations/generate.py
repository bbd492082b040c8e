"""Write the files that are generated from the declarations.

python -m memsyncd.operations.generate
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from memsyncd.operations import generate_cli, generate_client
from memsyncd.operations.operation import Operation, ToolAction
from memsyncd.operations.table import COMMAND_GROUPS, NOTIFICATIONS, OPERATIONS

METHODS_PAGE = Path(__file__).parents[1] / "METHODS.md"


def main() -> None:
    """Write the commands, the client's types and methods, the descriptions of fields, and the page
    of methods.
    """
    operations, notifications = OPERATIONS.values(), NOTIFICATIONS.values()
    commands = generate_cli.generate(operations, COMMAND_GROUPS)
    texts = {
        **{
            generate_cli.TARGET / f"{name or '__init__'}.py": text
            for name, text in commands.items()
        },
        generate_client.TYPES: generate_client.generate_types(operations, notifications),
        generate_client.METHODS: generate_client.generate_methods(operations),
        generate_client.FIELDS: generate_client.generate_fields(operations, notifications),
        METHODS_PAGE: render_methods(operations),
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


def render_methods(operations: Iterable[Operation]) -> str:
    """Return a page in markdown with a row for each method, and the surfaces that offer it."""
    rows = [
        f"| `{operation.name}` | {operation.summary} | {_mark(operation.route)} |"
        f" {_mark(*(command.words for command in operation.commands))} |"
        f" {_mark(_name_tool(operation))} |"
        for operation in operations
    ]
    return "\n".join([*_METHODS_HEAD, *rows, ""])


_METHODS_HEAD = (
    "# Methods",
    "",
    "`python -m memsyncd.operations.generate` writes this page from the declarations in",
    "`operations/*/declare.py`. `rpc.discover` answers with the parameters, results and errors of",
    "each method (OpenRPC); over HTTP `/openapi.json` and `/docs` have them.",
    "",
    "| method | purpose | HTTP, besides `POST /rpc` | command | tool of MCP |",
    "|---|---|---|---|---|",
)


def _mark(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names if name)


def _name_tool(operation: Operation) -> str:
    if isinstance(operation.tool, ToolAction):
        return f"{operation.tool.tool.name} {operation.tool.name}"
    return operation.tool.name if operation.tool else ""


if __name__ == "__main__":
    main()
