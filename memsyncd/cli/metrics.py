"""`memsyncd metrics`: what do the daemon's counters say? As text that Prometheus reads, or as one line of JSON."""

from __future__ import annotations

from memsyncd.cli.grammar import JSON, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.console import Console


def _metrics(args: Args, console: Console) -> int:
    terminal = console.terminal
    if args.json:
        terminal.print_json(console.ask("metrics"))
    else:
        terminal.print(console.ask("metrics", text=True)["text"].rstrip("\n"))
    return 0


COMMANDS = {
    "metrics": Command(
        _metrics,
        options=(JSON,),
        examples=("memsyncd metrics", "memsyncd metrics --json"),
    ),
}
