"""Makes, cuts and grows the notes that are measured.

Without a folder of one's own the notes are the markdown that named npm packages ship: several
thousand files, fetched once with npm. A cut is the same in each run. A corpus grows by copies of
its notes in which some of the words differ from copy to copy, so that the number of distinct words
grows as well.
"""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from memsyncd.config import Config
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.paths import NotePath

PACKAGES = (
    "react-scripts@5", "gatsby@5", "@angular/cli", "@nestjs/cli", "webpack-cli", "eslint", "jest", "mocha", "express", "lodash",
    "aws-cdk-lib",
)  # fmt: skip
SMALLEST_BYTES, LARGEST_BYTES = 20, 1_000_000
SEED = 7
N_SAMPLED = 200
# The share of words that are new in each copy of a grown corpus.
SALTED_PERCENT = 30
# The share of notes in the folder that a broad `path:` filter names.
BROAD_PERCENT = 85
BROAD, NARROW = "most", "rest"
_WORD = re.compile(r"[A-Za-z]{5,}")


class Source(NamedTuple):
    """A note of the corpus: its file, its path below the corpus, its size in bytes."""

    file: Path
    path: str
    size: int


class Copy(NamedTuple):
    """A note of a workspace: the source, and the number of the copy; 0 is the text as it is."""

    source: Source
    number: int

    @property
    def target(self) -> str:
        folder = find_folder(self.source.path)
        return f"{folder}/{f'copy-{self.number}/' if self.number else ''}{self.source.path}"

    def read(self) -> bytes:
        data = self.source.file.read_bytes()
        return salt_words(data, self.number) if self.number else data


def find_sources(folder: Path) -> list[Source]:
    """Return the notes beneath a folder, each text once, in order of path. Raises SystemExit if
    there is none.
    """
    seen: set[bytes] = set()
    sources = []
    for file in sorted(folder.rglob("*.md")):
        if not file.is_file() or not SMALLEST_BYTES <= file.stat().st_size <= LARGEST_BYTES:
            continue
        data = file.read_bytes()
        digest = hashlib.sha256(data).digest()
        if digest not in seen:
            seen.add(digest)
            sources.append(Source(file, clean_path(file.relative_to(folder)), len(data)))
    if not sources:
        raise SystemExit(f"{folder} has no markdown files; name a folder of notes")
    return sources


def clean_path(path: Path) -> str:
    """Return the path without hidden folders, which are not indexed, and without `node_modules`."""
    parts = (part.lstrip(".") for part in path.parts if part != "node_modules")
    return "/".join(part for part in parts if part)


def find_folder(path: str) -> str:
    """Return the top folder of a note: most notes are in one of two, by the hash of their path."""
    return BROAD if zlib.crc32(path.encode()) % 100 < BROAD_PERCENT else NARROW


def fetch_packages(folder: Path) -> Path:
    """Install the packages and their dependencies without running their scripts; return the folder.
    A package that is there already is not fetched again. Raises SystemExit if npm fails.
    """
    modules = folder / "node_modules"
    if modules.is_dir():
        return modules
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"name": "corpus", "private": true}\n')
    print(f"fetching {len(PACKAGES)} packages, which takes some minutes", file=sys.stderr)
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", "--silent")
    try:
        subprocess.run(("npm", "install", *options, *PACKAGES), cwd=folder, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"npm failed: {error}; install npm, or name a folder of notes") from error
    return modules


def estimate_chunk_bytes(sources: Sequence[Source]) -> float:
    """Return the bytes of text for each chunk, of a sample of the notes."""
    config = Config()
    sample = shuffle(sources)[:N_SAMPLED]
    n_chunks = sum(
        len(parse_note(NotePath(source.path), source.file.read_bytes(), config.chunking).chunks)
        for source in sample
    )
    return sum(source.size for source in sample) / max(1, n_chunks)


def cut_to_bytes(sources: Sequence[Source], n_bytes: float) -> list[Copy]:
    """Return as many notes as have about so many bytes; all of them, and copies, if there are not
    so many.
    """
    total = sum(source.size for source in sources)
    n_whole = int(n_bytes // total)
    chosen = [Copy(source, number) for number in range(n_whole) for source in sources]
    left = n_bytes - n_whole * total
    for source in shuffle(sources):
        if left < source.size / 2:
            break
        chosen.append(Copy(source, n_whole))
        left -= source.size
    return chosen


def cut_to_notes(sources: Sequence[Source], n_notes: int) -> list[Copy]:
    return [Copy(source, 0) for source in shuffle(sources)[:n_notes]]


def shuffle(sources: Sequence[Source]) -> list[Source]:
    """Return the notes in an order that is the same in each run."""
    shuffled = list(sources)
    random.Random(SEED).shuffle(shuffled)
    return shuffled


def salt_words(text: bytes, number: int) -> bytes:
    """Replace a part of the words by words of this copy alone, the same word by the same one."""
    return _WORD.sub(
        lambda match: _salt_word(match[0], number), text.decode(errors="replace")
    ).encode()


def write_workspace(copies: Sequence[Copy], root: Path) -> int:
    """Write the notes of a workspace; return their bytes."""
    n_bytes = 0
    for copy in copies:
        target = root / ".memories" / copy.target
        target.parent.mkdir(parents=True, exist_ok=True)
        n_bytes += target.write_bytes(copy.read())
    return n_bytes


def read_texts(copies: Sequence[Copy]) -> Iterator[str]:
    return (copy.read().decode(errors="replace") for copy in copies)


def _salt_word(word: str, number: int) -> str:
    digest = zlib.crc32(f"{number} {word.lower()}".encode())
    if digest % 100 >= SALTED_PERCENT:
        return word
    letters = "".join(chr(ord("a") + digest // 26**power % 26) for power in range(1, 4))
    return word + letters
