"""The commands of one capability.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations

from memsyncd.terminal.actions import call_operation, load_action, load_parser
from memsyncd.terminal.parser import (
    IDS,
    JSON,
    ALL,
    JSON_LINES,
    PATHS,
    Argument,
    Command,
    Option,
    make_format,
    make_group,
    parse_fraction,
    parse_pair,
    parse_whole,
)


def make_log_agents() -> Command:
    return Command(
        load_action("agents", "show_agent_log"),
        summary="list what hooks and tools gave to agents, and what agents wrote",
        options=(
            Option("--session ID", "only answers to this session; the first characters of its name are enough", field="session"),
            Option("--agent NAME", "only answers to this agent, or to this client, such as claude-code; the first characters of its name are enough", field="agent"),
            Option("--since TIME", "only answers since then: 30min, 12h, 7d, last week, or a day such as 2026-03-01", field="since"),
            Option("--before N", "only answers before this one", field="before"),
            Option("-n --limit N", "the last N answers (default 20)", field="limit"),
            Option("-f --follow", "go on with new answers, until Ctrl-C"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            JSON,
        ),
        examples=("memsyncd log agents", "memsyncd log agents --agent codex --since 2h", "memsyncd log agents --session 3f2a --follow"),
        in_each=True,
    )


def make_log() -> Command:
    return make_group(
        "log",
        {
            "agents": make_log_agents(),
        },
        ("memsyncd log agents --follow",),
    )
