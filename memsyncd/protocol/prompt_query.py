"""Turn a prompt into a query."""

from __future__ import annotations

QUERY_CHARACTERS = 1024
"""How long a query may get: the daemon shortens longer ones, and says so in its answer."""


def make_query(prompt: str) -> str:
    """Return the words of a prompt as a query: each once, without the syntax of searches.

    Empty for a prompt without words.
    """
    # A quote or a minus in a prompt is no condition, nor is `is:archived` a filter.
    words = prompt.replace('"', " ").replace(":", " ").split()
    bare = (word.lstrip("-").rstrip("*") for word in words)
    query = " ".join(dict.fromkeys(word for word in bare if any(map(str.isalnum, word))))
    if len(query) <= QUERY_CHARACTERS:
        return query
    whole = query[: QUERY_CHARACTERS + 1].rpartition(" ")[0]
    # A sentence in a script without spaces is one word here.
    return whole if len(whole) > QUERY_CHARACTERS // 2 else query[:QUERY_CHARACTERS]
