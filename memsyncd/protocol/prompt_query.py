"""Turn a prompt into a query."""

from __future__ import annotations

QUERY_BYTES = 1000
"""How long a query may get. The daemon refuses those over 1 KiB."""


def make_query(prompt: str) -> str:
    """Return the words of a prompt as a query: each once, without the syntax of searches.

    Empty for a prompt without words.
    """
    # A quote or a minus in a prompt is no condition, nor is `is:archived` a filter.
    words = prompt.replace('"', " ").replace(":", " ").split()
    bare = (word.lstrip("-").rstrip("*") for word in words)
    query = " ".join(dict.fromkeys(word for word in bare if any(map(str.isalnum, word))))
    if len(query.encode("utf-8", "replace")) <= QUERY_BYTES:
        return query
    cut = query.encode("utf-8", "replace")[: QUERY_BYTES + 1].decode("utf-8", "ignore")
    return cut.rpartition(" ")[0] or cut[: QUERY_BYTES // 4]
