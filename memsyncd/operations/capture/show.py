"""Read the files of `memsyncd capture`, and print the sections that it has written."""

from __future__ import annotations

from memsyncd.errors import BadRequest
from memsyncd.terminal.console import DASH, read_stdin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


def make_artifacts(args: Args, console: Console) -> dict[str, Any]:
    """Return the texts of the files. Raises BadRequest if there is nothing to capture, or a file
    cannot be read.
    """
    artifacts = [
        {"content": _read_artifact(path, console), "path": path[:200]} for path in args.file
    ]
    if args.stdin:
        artifacts.append({"content": read_stdin(console)})
    if not artifacts and args.error is None and not args.answers:
        raise BadRequest(
            "capture: there is nothing to capture", hint="name a FILE, or use --error or --answer"
        )
    return {"artifacts": artifacts}


def show_captured(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for added in answer["added"]:
        console.print_place(added, answer["workspace"])
    if not answer["added"]:
        console.terminal.report("nothing new: the notes have it already")


def _read_artifact(path: str, console: Console) -> str:
    if path == DASH:
        return read_stdin(console)
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8-sig")
    except OSError as error:
        raise BadRequest(
            f"{path} cannot be read: {error.strerror}", hint="name a readable file"
        ) from error
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"{path} is not valid UTF-8", hint=f"convert it first, as with: iconv -t UTF-8 {path}"
        ) from error
