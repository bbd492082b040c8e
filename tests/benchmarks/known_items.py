"""Is a text found by its own words? Phrases and rare words of any folder of notes are asked for.

    python -m tests.benchmarks.known_items FOLDER [FOLDER ...] [--items N] [--seed N]
        [--against CHECKOUT] [--misses]

A phrase is 5 to 12 words of a random line, in scripts without spaces 8 to 24 characters that begin
and end at no place within a Latin word; of signs alone there is none. Each is asked as it is and in
quotes. A rare word has six letters or more and is in at most two notes. A hit is right if its lines
hold the word, or the words of the phrase in a row: in any spelling, and with any signs between. @1
and @5 are the shares of items with a right hit first, and among the first five. The same folder and
seed give the same items. `--against` asks a daemon of another checkout as well, by turns, and tells
what differs with the interval of resampled differences. `--misses` prints each item that is not
first.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from memsyncd.client import Client
from memsyncd.config import Config
from memsyncd.core.search.words import fold
from tests.benchmarks.figure import find_percentile
from tests.benchmarks.home import Checkout, Home, running
from tests.benchmarks.measures import find_mean, find_paired_interval

N_ITEMS, SEED, LIMIT, TIMEOUT_MS = 300, 5, 10, 30_000
WORDS, CHARACTERS = (5, 12), (8, 24)
RARE_LETTERS, RARE_NOTES = 6, 2
# A line is of a script without spaces if at least so many of its characters are.
UNSPACED_SHARE = 0.3
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_WORD = re.compile(r"[^\W_]+")
# Each character of a script without spaces is a word.
_WORD_OR_CHARACTER = re.compile(rf"{_UNSPACED.pattern}|[^\W_{_UNSPACED.pattern[1:-1]}]+")
PLAIN, QUOTED, RARE = "phrase, as it is", "phrase, in quotes", "one rare word"

# The lines of each note, by its path.
Notes = Mapping[str, Sequence[str]]


class Item(NamedTuple):
    """An item to ask for, and a test whether a text holds it."""

    kind: str
    query: str
    is_held: Callable[[str], bool]


@dataclass(slots=True)
class Asked:
    """The ranks of right hits, infinity where there is none, and how long each search took."""

    ranks: list[float] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)

    def first(self, n_hits: int) -> list[float]:
        """For each item 1 if a right hit is among so many, else 0."""
        return [float(rank <= n_hits) for rank in self.ranks]


def read_notes(folder: Path) -> dict[str, list[str]]:
    """Read all notes beneath a folder that are indexed: not in hidden folders, and not too large."""
    paths = [path.relative_to(folder) for path in sorted(folder.rglob("*.md"))]
    return {
        path.as_posix(): (folder / path).read_text(encoding="utf-8", errors="replace").split("\n")
        for path in paths
        if not any(part.startswith(".") for part in path.parts)
        and (folder / path).stat().st_size <= Config().sync.max_file_bytes
    }


def draw_items(notes: Notes, n_items: int, seed: int) -> list[Item]:
    """Draw so many items of each kind at most, the same ones for the same notes and seed."""
    chance = random.Random(seed)
    phrases = draw_phrases(notes, n_items, chance)
    items = [Item(PLAIN, phrase, hold_phrase(phrase)) for phrase in phrases]
    items += [Item(QUOTED, f'"{phrase}"', hold_phrase(phrase)) for phrase in phrases]
    words = find_rare_words(notes)
    rare = chance.sample(words, min(n_items, len(words)))
    return items + [Item(RARE, word, hold_word(word)) for word in rare]


def draw_phrases(notes: Notes, n_phrases: int, chance: random.Random) -> list[str]:
    """Draw phrases from lines that are long enough and have no quote."""
    lines = [line for path in sorted(notes) for line in notes[path] if is_long_enough(line)]
    chance.shuffle(lines)
    phrases = (cut_phrase(line, chance) for line in lines)
    return [*islice((phrase for phrase in phrases if len(split_words(phrase)) > 1), n_phrases)]


def is_long_enough(line: str) -> bool:
    if '"' in line:
        return False
    if is_unspaced(line):
        return len(line.strip()) >= CHARACTERS[0]
    return len(line.split()) >= WORDS[0]


def split_words(text: str) -> list[str]:
    """The words of a text, in one spelling of their letters."""
    return _WORD_OR_CHARACTER.findall(fold(text).casefold())


def is_unspaced(line: str) -> bool:
    n_characters = len("".join(line.split()))
    return n_characters > 0 and len(_UNSPACED.findall(line)) >= UNSPACED_SHARE * n_characters


def cut_phrase(line: str, chance: random.Random) -> str:
    if not is_unspaced(line):
        words = line.split()
        length = min(len(words), chance.randint(*WORDS))
        start = chance.randint(0, len(words) - length)
        return " ".join(words[start : start + length])
    line = " ".join(line.split())
    length = min(len(line), chance.randint(*CHARACTERS))
    start = chance.randint(0, len(line) - length)
    end = start + length
    while start > 0 and is_within_word(line, start):
        start -= 1
    while is_within_word(line, end):
        end += 1
    return line[start:end].strip()


def is_within_word(line: str, at: int) -> bool:
    """True between two characters of one Latin word, number or name."""
    sides = line[at - 1 : at + 1]
    return at > 0 and len(sides) == 2 and bool(re.fullmatch(r"[\w.\-]{2}", sides, re.ASCII))


def find_rare_words(notes: Notes) -> list[str]:
    """The words of letters that are long and in few notes, in order."""
    counts: Counter[str] = Counter()
    for lines in notes.values():
        counts.update({word.casefold() for word in _WORD.findall("\n".join(lines))})
    return sorted(
        word
        for word, n_notes in counts.items()
        if n_notes <= RARE_NOTES and len(word) >= RARE_LETTERS
        if word.isalpha() and not _UNSPACED.search(word)
    )


def hold_phrase(phrase: str) -> Callable[[str], bool]:
    """Tell of the lines of a hit whether they hold the words of the phrase in a row."""
    words = f" {' '.join(split_words(phrase))} "
    return lambda text: words in f" {' '.join(split_words(text))} "


def hold_word(word: str) -> Callable[[str], bool]:
    """Tell of the lines of a hit whether they hold the word, in any spelling of its letters."""
    pattern = re.compile(rf"(?<![^\W_]){re.escape(fold(word))}(?![^\W_])", re.IGNORECASE)
    return lambda text: pattern.search(fold(text)) is not None


def find_rank(hits: Sequence[Mapping[str, Any]], item: Item, notes: Notes) -> float:
    """The rank, from 1, of the first right hit; infinity if there is none."""
    for rank, hit in enumerate(hits, 1):
        lines = notes.get(hit["path"], ())[hit["start_line"] - 1 : hit["end_line"]]
        if item.is_held("\n".join([hit["path"], *hit["heading"], *lines])):
            return rank
    return float("inf")


def ask_all(
    clients: Sequence[Client], items: Sequence[Item], notes: Notes, *, has_misses: bool
) -> list[dict[str, Asked]]:
    """Ask each daemon each item, by turns; the results of each by kind of item."""
    asked = [{kind: Asked() for kind in (PLAIN, QUOTED, RARE)} for _ in clients]
    for number, item in enumerate(items):
        for at in rotate(range(len(clients)), number):
            began_s = time.perf_counter()
            answer = clients[at].call(
                "search", query=item.query, limit=LIMIT, timeout_ms=TIMEOUT_MS
            )
            of_kind = asked[at][item.kind]
            of_kind.times_ms.append((time.perf_counter() - began_s) * 1000)
            of_kind.ranks.append(find_rank(answer["hits"], item, notes))
            if has_misses and at == 0 and of_kind.ranks[-1] > 1:
                print(f"{of_kind.ranks[-1]:>4} {item.query}", flush=True)
    return asked


def rotate(numbers: Sequence[int], n: int) -> Iterator[int]:
    """The numbers from another one on each time."""
    for at in range(len(numbers)):
        yield numbers[(at + n) % len(numbers)]


def measure_folder(
    folder: Path, checkouts: Sequence[Checkout], n_items: int, seed: int, *, has_misses: bool
) -> None:
    """Ask for the items of one folder, and print a row for each kind and checkout."""
    notes = read_notes(folder)
    items = draw_items(notes, n_items, seed)
    with ExitStack() as stack:
        homes = [stack.enter_context(running("", checkout)) for checkout in checkouts]
        for home in homes:
            add_vault(home, folder)
        clients = [stack.enter_context(home.client()) for home in homes]
        asked = ask_all(clients, items, notes, has_misses=has_misses)
    for kind in (PLAIN, QUOTED, RARE):
        for checkout, results in zip(checkouts, asked, strict=True):
            print(render_row(folder.name, kind, checkout, results[kind]))
        for checkout, results in zip(checkouts[1:], asked[1:], strict=True):
            print(render_differences(folder.name, kind, checkout, results[kind], asked[0][kind]))
    sys.stdout.flush()


def add_vault(home: Home, folder: Path) -> None:
    root = home.folder / "notes"
    shutil.copytree(folder, root)
    for place in (root, *root.rglob("*/")):
        place.chmod(0o700)
    with home.client() as client:
        client.call("workspace.add", path=str(root), preset="vault")
    home.wait_until_ready()
    home.wait_until_quiet()


def render_row(name: str, kind: str, checkout: Checkout, asked: Asked) -> str:
    if not asked.ranks:
        return f"| {name} | {kind} | {checkout.folder.name} | 0 | | | |"
    shares = " | ".join(f"{find_mean(asked.first(n)):.3f}" for n in (1, 5))
    p50, p95 = (find_percentile(asked.times_ms, percent) for percent in (50, 95))
    n_items = len(asked.ranks)
    times = f"{p50:.1f} / {p95:.1f}"
    return f"| {name} | {kind} | {checkout.folder.name} | {n_items} | {shares} | {times} |"


def render_differences(
    name: str, kind: str, checkout: Checkout, before: Asked, after: Asked
) -> str:
    if not before.ranks:
        return f"| {name} | {kind} | since {checkout.folder.name} | 0 | | | |"
    cells = []
    for n_hits in (1, 5):
        found = find_paired_interval(before.first(n_hits), after.first(n_hits))
        mean, low, high = (100 * value for value in found)
        cells.append(f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]")
    ratios = [
        find_percentile(after.times_ms, percent) / find_percentile(before.times_ms, percent)
        for percent in (50, 95)
    ]
    times = " / ".join(f"{ratio:.2f} ×" for ratio in ratios)
    return f"| {name} | {kind} | since {checkout.folder.name} | | {' | '.join(cells)} | {times} |"


def main(arguments: Sequence[str] | None = None) -> None:
    # The daemons are stopped when the command is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(description="Measure whether texts are found by their words.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a folder of notes")
    parser.add_argument("--items", type=int, default=N_ITEMS, help="of each kind at most")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="compare with this checkout, too"
    )
    parser.add_argument("--misses", action="store_true", help="print what is not found first")
    args = parser.parse_args(arguments)
    checkouts = [Checkout.this(), *([Checkout.at(args.against)] if args.against else [])]
    print("| notes | asked for | checkout | items | @1 | @5 | ms, p50 / p95 |")
    print(f"|{'---|' * 7}")
    for folder in args.folders:
        measure_folder(folder.resolve(), checkouts, args.items, args.seed, has_misses=args.misses)


if __name__ == "__main__":
    main()
