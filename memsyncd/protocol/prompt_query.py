"""Turn a prompt into a query."""

from __future__ import annotations

QUERY_CHARACTERS = 1024
"""The longest query. The daemon shortens longer queries, and says so in its answer."""


def make_query(prompt: str) -> str:
    """Return the words of a prompt as a query: each word once, without the syntax of searches.

    The query is empty for a prompt without words, or of stopwords alone: `and now?` would find
    every note with *and*.
    """
    # Clients import this module without the libraries that a query needs.
    from memsyncd.core.search.query import has_only_stopwords, parse_query

    # In a prompt, a quote or a minus is no condition, and `is:archived` is no filter.
    words = prompt.replace('"', " ").replace(":", " ").split()
    bare = (word.lstrip("-").rstrip("*") for word in words)
    query = " ".join(dict.fromkeys(word for word in bare if any(map(str.isalnum, word))))
    if len(query) <= QUERY_CHARACTERS:
        return "" if has_only_stopwords(parse_query(query)) else query
    whole = query[: QUERY_CHARACTERS + 1].rpartition(" ")[0]
    # In a script without spaces, a sentence counts as one word here.
    return whole if len(whole) > QUERY_CHARACTERS // 2 else query[:QUERY_CHARACTERS]
