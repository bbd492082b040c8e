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


def make_semantic_status() -> Command:
    return Command(
        load_action("semantic", "show_coverage"),
        summary="show how much of each workspace it covers",
        options=(
            Option("--all", "all workspaces, which is the default"),
            Option("-w --workspace WS", "only this workspace: a name, an id or a folder in it; by default all", field="workspace"),
            JSON,
        ),
        examples=("memsyncd semantic status",),
    )


def make_semantic_enable() -> Command:
    return Command(
        load_action("semantic", "switch_on"),
        summary="switch it on in the configuration file",
        options=(
            JSON,
        ),
        examples=("memsyncd semantic enable",),
    )


def make_semantic_disable() -> Command:
    return Command(
        load_action("semantic", "switch_off"),
        summary="switch it off, and delete the vectors",
        options=(
            JSON,
        ),
        examples=("memsyncd semantic disable",),
    )


def make_semantic_warm() -> Command:
    return Command(
        load_action("semantic", "wait_for_vectors"),
        summary="make the vectors that are missing now, and load the model",
        options=(
            Option("--again", "make all vectors again", field="again"),
            Option("--all", "all workspaces, which is the default"),
            Option("-w --workspace WS", "only this workspace: a name, an id or a folder in it; by default all", field="workspace"),
            JSON,
        ),
        examples=("memsyncd semantic warm", "memsyncd semantic warm --again"),
    )


def make_semantic() -> Command:
    return make_group(
        "semantic",
        {
            "status": make_semantic_status(),
            "enable": make_semantic_enable(),
            "disable": make_semantic_disable(),
            "warm": make_semantic_warm(),
        },
        ("memsyncd semantic enable", "memsyncd semantic status"),
    )
