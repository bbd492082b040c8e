"""Write the files that are generated from the declarations.

python -m memsyncd.operations.generate
"""

from __future__ import annotations

from memsyncd.operations import generate_cli, generate_client
from memsyncd.operations.table import COMMAND_GROUPS, NOTIFICATIONS, OPERATIONS


def main() -> None:
    """Write the commands, the client's types and methods, and the descriptions of fields."""
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
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
