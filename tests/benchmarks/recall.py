"""How much of what is asked for is found? A daemon is asked over its socket, and simpler things are
asked the same.

    python -m tests.benchmarks.recall SET [SET ...] [--sorts] [--limits 10 50]
        [--vectors] [--embedder NAME --model FOLDER] [--keep FOLDER] [--against CHECKOUT]

A SET is a folder with `questions.jsonl`, see `questions.py`; `tests/recall` is one. Each scope of
it becomes a workspace. `measures.py` defines the figures, each with the interval that holds 95 % of
resampled means. `--vectors` asks a second daemon, with semantic search, as soon as all chunks have
their vectors, which `--keep` keeps for the next run; `--against` asks a daemon of another checkout.
Their differences are printed for the same questions, all and each sort, with the interval of
resampled differences: an interval without 0 is more than chance. `--sorts` also prints for how many
notes the first question finds the note among three hits.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memsyncd.client import Client
from tests.benchmarks.baselines import Fts, Ripgrep, find_ripgrep
from tests.benchmarks.figure import find_percentile
from tests.benchmarks.home import Checkout, Home, running
from tests.benchmarks.measures import (
    BUDGETS,
    NAMES,
    find_interval,
    find_mean,
    find_paired_interval,
    find_ranks,
    find_share,
    measure_answer,
)
from tests.benchmarks.questions import Lines, Question, QuestionSet, find_scope_path, read_set

# The default of `limit`, and as many results as the largest budget of tokens may take.
LIMITS = (10, 50)
CONTEXT_TOKENS = 4 * max(BUDGETS)
TIMEOUT_MS = 30_000
# A question may wait long for its vector on a busy machine, so that every answer has both parts.
SEMANTIC_CONFIG = """[semantic]
enabled = true
embedder = "{embedder}"
model = "{model}"
question_ms = 10000
"""
VECTORS_S, MODEL_S = 3600.0, 60.0
# A note is met if it is among so many hits.
N_TOP = 3

Ask = Callable[[str, str], list[Lines]]
"""Results for a scope and a question's text, the best first."""


@dataclass(slots=True)
class MethodResult:
    """The result of one method: the figures of each question, the rank of the first result that
    holds evidence, and how long it took.
    """

    name: str
    figures: list[dict[str, float]] = field(default_factory=list)
    ranks: list[float] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)

    def render(self) -> str:
        cells = [self._render_cell(name) for name in NAMES]
        times = (
            f"{find_percentile(self.times_ms, 50):.1f} / {find_percentile(self.times_ms, 95):.1f}"
        )
        return f"| {self.name} | {' | '.join(cells)} | {times} |"

    def _render_cell(self, name: str) -> str:
        values = [figures[name] for figures in self.figures if name in figures]
        if not values:
            return "–"
        low, high = find_interval(values)
        return f"{find_mean(values):.3f} [{low:.2f}–{high:.2f}]"


class Daemon:
    """The notes of a set in workspaces of a daemon. `n_by_words` counts answers without vectors."""

    def __init__(self, home: Home, question_set: QuestionSet) -> None:
        self.n_by_words = 0
        self._roots = {
            scope: home.folder / f"scope-{number}"
            for number, scope in enumerate(question_set.notes)
        }
        for scope, root in self._roots.items():
            if not root.exists():  # a home that was kept has them
                question_set.copy_scope(scope, root)
            home.add(root)

    def search(self, client: Client, limit: int) -> Ask:
        def ask(scope: str, text: str) -> list[Lines]:
            root = str(self._roots[scope])
            answer = client.call(
                "search", query=text, workspace=root, limit=limit, timeout_ms=TIMEOUT_MS
            )
            self._count(answer)
            return [_read_lines(hit) for hit in answer["hits"]]

        return ask

    def context(self, client: Client, max_tokens: int) -> Ask:
        def ask(scope: str, text: str) -> list[Lines]:
            root = str(self._roots[scope])
            answer = client.call(
                "context", query=text, workspace=root, max_tokens=max_tokens, timeout_ms=TIMEOUT_MS
            )
            self._count(answer)
            return [_read_lines(part) for part in answer["included"]]

        return ask

    def wait_for_model(self, client: Client, text: str) -> None:
        """Ask a question until it is answered with vectors: the first ones load the model."""
        end_s = time.monotonic() + MODEL_S
        for root in self._roots.values():
            while time.monotonic() < end_s:
                answer = client.call(
                    "search", query=text, workspace=str(root), timeout_ms=TIMEOUT_MS
                )
                if answer["semantic"] == "ready":
                    break
                time.sleep(0.2)

    def _count(self, answer: Mapping[str, Any]) -> None:
        self.n_by_words += answer.get("semantic") != "ready"


def main() -> None:
    # The daemons are stopped when the command is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(
        description="Measure what is found, beside what simpler things find."
    )
    parser.add_argument(
        "sets", nargs="+", type=Path, metavar="SET", help="a folder with questions.jsonl"
    )
    parser.add_argument(
        "--sorts", action="store_true", help="tell the figures of each sort of question, too"
    )
    parser.add_argument(
        "--limits", nargs="+", type=int, default=LIMITS, metavar="N", help="hits of a search"
    )
    parser.add_argument("--vectors", action="store_true", help="measure with semantic search, too")
    parser.add_argument("--embedder", default="universal", help="the embedder of --vectors")
    parser.add_argument("--model", default="", help="the name of its model")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the daemon of --vectors, here"
    )
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="compare with this checkout, too"
    )
    args = parser.parse_args()
    variants = [Variant("memsyncd")]
    if args.vectors:
        config = SEMANTIC_CONFIG.format(embedder=args.embedder, model=args.model)
        variants.append(Variant("with vectors", config=config, keep=args.keep))
    if args.against:
        variants.append(Variant(args.against.name, checkout=Checkout.at(args.against)))
    for folder in args.sets:
        question_set = read_set(folder.resolve())
        measure_set(question_set, variants, args.limits, has_sorts=args.sorts)


@dataclass(frozen=True, slots=True)
class Variant:
    """A daemon that is asked: its configuration, its checkout if it is another, and where its home
    of each set is kept.
    """

    name: str
    config: str = ""
    checkout: Checkout | None = None
    keep: Path | None = None

    @contextlib.contextmanager
    def run(self, name: str) -> Iterator[Home]:
        """Run the daemon for the set of this name."""
        if self.keep is None:
            with running(self.config, self.checkout) as home:
                yield home
            return
        folder = self.keep.resolve() / name
        folder.mkdir(parents=True, exist_ok=True)
        home = Home(folder, self.config, self.checkout)
        try:
            yield home
        finally:
            home.stop()


def measure_set(
    question_set: QuestionSet,
    variants: Sequence[Variant],
    limits: Sequence[int],
    *,
    has_sorts: bool,
) -> None:
    """Ask everything and print the tables."""
    n_notes = sum(len(notes) for notes in question_set.notes.values())
    print(
        f"\n{question_set.name}: {len(question_set.questions)} questions about {n_notes} notes in {len(question_set.notes)} workspaces\n"
    )
    print(f"| | {' | '.join(NAMES)} | ms, p50 / p95 |\n|---|{'---|' * (len(NAMES) + 1)}")
    for name, ask in find_baselines(question_set).items():
        print(measure(name, ask, question_set).render(), flush=True)
    if find_ripgrep() is None:
        print("| ripgrep: not measured, since rg is not installed |", flush=True)
    measured = [measure_variant(variant, question_set, limits) for variant in variants]
    if has_sorts:
        print_sorts(measured[0][0], question_set.questions)
        print_met([results[0] for results in measured], question_set.questions)
    for variant, results in zip(variants[1:], measured[1:], strict=True):
        is_older = variant.checkout is not None
        what = f"since {variant.name}" if is_older else variant.name
        pairs = [
            (other, first) if is_older else (first, other)
            for first, other in zip(measured[0], results, strict=True)
        ]
        print_differences(what, pairs, question_set.questions)


def measure_variant(
    variant: Variant, question_set: QuestionSet, limits: Sequence[int]
) -> list[MethodResult]:
    """Ask a daemon everything, and print a row for each way of asking."""
    with variant.run(question_set.name) as home, home.client() as client:
        daemon = Daemon(home, question_set)
        if variant.config:
            wait_for_vectors(client)
            daemon.wait_for_model(client, question_set.questions[0].text)
        results = [
            measure(f"{variant.name} search {n}", daemon.search(client, n), question_set)
            for n in limits
        ]
        if has_context(client):
            pieces = daemon.context(client, CONTEXT_TOKENS)
            results.append(measure(f"{variant.name} context, its pieces", pieces, question_set))
            results.append(measure_blocks(variant.name, daemon, client, question_set))
        for result in results:
            print(result.render(), flush=True)
    if variant.config and daemon.n_by_words:
        print(f"| {variant.name}: {daemon.n_by_words} answers were by words alone |", flush=True)
    return results


def wait_for_vectors(client: Client) -> None:
    """Wait until all chunks have vectors and the model answers."""
    end_s = time.monotonic() + VECTORS_S
    while time.monotonic() < end_s:
        states = [
            workspace["semantic"] for workspace in client.call("semantic.status")["workspaces"]
        ]
        if all(state["state"] == "ready" for state in states):
            return
        if failed := [state["reason"] for state in states if state["failed"]]:
            raise SystemExit(f"no vectors: {failed[0]}")
        time.sleep(0.5)
    raise SystemExit(f"not all chunks had vectors after {VECTORS_S} s: {states}")


def print_differences(
    what: str,
    pairs: Sequence[tuple[MethodResult, MethodResult]],
    questions: Sequence[Question],
) -> None:
    """Print what changes from the first of each pair to the second, in points of a hundred."""
    print(f"\n| {what}, points | questions | {' | '.join(NAMES)} |")
    print(f"|---|{'---|' * (len(NAMES) + 1)}")
    sorts = sorted({question.category for question in questions})
    for before, after in pairs:
        for sort in ("", *sorts) if len(sorts) > 1 else ("",):
            at = [i for i, question in enumerate(questions) if sort in ("", question.category)]
            cells = [
                render_difference(
                    [before.figures[i][name] for i in at], [after.figures[i][name] for i in at]
                )
                if name in after.figures[0]
                else "–"
                for name in NAMES
            ]
            label = f"{after.name}: {sort}" if sort else after.name
            print(f"| {label} | {len(at)} | {' | '.join(cells)} |")


def render_difference(before: Sequence[float], after: Sequence[float]) -> str:
    mean, low, high = (100 * share for share in find_paired_interval(before, after))
    text = f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"**{text}**" if low > 0 or high < 0 else text


def find_baselines(question_set: QuestionSet) -> dict[str, Ask]:
    ways: dict[str, Ask] = {
        "AND of all words, chunks of 1,600": Fts(
            question_set, tokenizer="unicode61", is_any=False
        ).ask,
        "OR without stopwords, stemmed, the same chunks": Fts(
            question_set, tokenizer="porter unicode61", is_any=True
        ).ask,
    }
    program = find_ripgrep()
    return (
        ways
        if program is None
        else ways | {"ripgrep, notes by number of words": Ripgrep(question_set, program).ask}
    )


def measure(name: str, ask: Ask, question_set: QuestionSet) -> MethodResult:
    row = MethodResult(name)
    for question in question_set.questions:
        results = _time(row, ask, question)
        row.figures.append(
            measure_answer(results, question.evidence, question_set.notes[question.scope])
        )
        row.ranks.append(min(find_ranks(results, question.evidence)))
    return row


def measure_blocks(
    name: str, daemon: Daemon, client: Client, question_set: QuestionSet
) -> MethodResult:
    """The share of the evidence that stands in blocks of the very sizes, whose headings take room
    as well."""
    row = MethodResult(f"{name} context, the block itself")
    for question in question_set.questions:
        figures = {}
        for budget in BUDGETS:
            shown = _time(row, daemon.context(client, budget), question)
            lines = {
                (passage.path, line)
                for passage in shown
                for line in range(passage.start, passage.end + 1)
            }
            figures[f"T@{budget}"] = find_share(lines, question.evidence)
        row.figures.append(figures)
    return row


def has_context(client: Client) -> bool:
    return any(method["name"] == "context" for method in client.call("rpc.discover")["methods"])


def print_sorts(found: MethodResult, questions: Sequence[Question]) -> None:
    """The figures of a row by sort of question."""
    sorts: dict[str, list[dict[str, float]]] = collections.defaultdict(list)
    for question, figures in zip(questions, found.figures, strict=True):
        sorts[question.category].append(figures)
    print(f"\n| {found.name} | questions | {' | '.join(NAMES)} |\n|---|{'---|' * (len(NAMES) + 1)}")
    for sort, measured in sorted(sorts.items()):
        cells = [f"{find_mean([figures[name] for figures in measured]):.3f}" for name in NAMES]
        print(f"| {sort} | {len(measured)} | {' | '.join(cells)} |")


def print_met(results: Sequence[MethodResult], questions: Sequence[Question]) -> None:
    """Print for each sort how many notes their first question finds among the first hits."""
    first: dict[tuple[str, str, str], int] = {}
    for at, question in enumerate(questions):
        first.setdefault((question.category, question.scope, question.evidence[0].path), at)
    sorts: dict[str, list[int]] = collections.defaultdict(list)
    for (category, _, _), at in first.items():
        sorts[category].append(at)
    print(f"\n| notes among the first {N_TOP} hits | notes |", end="")
    print(f" {' | '.join(result.name for result in results)} |\n|---|---|{'---|' * len(results)}")
    for sort, places in sorted(sorts.items()):
        cells = [str(sum(result.ranks[at] <= N_TOP for at in places)) for result in results]
        print(f"| {sort} | {len(places)} | {' | '.join(cells)} |")


def _time(row: MethodResult, ask: Ask, question: Question) -> list[Lines]:
    began_s = time.perf_counter()
    results = ask(question.scope, question.text)
    row.times_ms.append((time.perf_counter() - began_s) * 1000)
    return results


def _read_lines(answer: Mapping[str, object]) -> Lines:
    return Lines(
        path=find_scope_path(str(answer["path"])),
        start=int(str(answer["start_line"])),
        end=int(str(answer["end_line"])),
    )


if __name__ == "__main__":
    main()
