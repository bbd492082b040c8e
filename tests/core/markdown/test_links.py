from __future__ import annotations

import pytest

from memsyncd.core.markdown.links import Mention, find_mentions
from memsyncd.core.markdown.scanner import split_blocks


def find(text: str) -> list[Mention]:
    lines = text.split("\n")
    return find_mentions(text, lines, split_blocks(lines))


@pytest.mark.parametrize(
    ("text", "target", "heading", "relation"),
    [
        ("[[a]]", "a", "", ""),
        ("see [[ a b # c d | shown ]]", "a b", "c d", ""),
        ("[[#here]]", "", "here", ""),
        ("![[a.md]]", "a.md", "", ""),
        ("[t](a.md)", "a.md", "", ""),
        ("[t](../x/a.markdown#b)", "../x/a.markdown", "b", ""),
        ("[t](<a b.txt> 'title')", "a b.txt", "", ""),
        ("[t](#b)", "", "b", ""),
        ("- supersedes [[a]]", "a", "", "supersedes"),
        ("1. part_of: [[a#b]]", "a", "b", "part_of"),
        ("  * [ ] needs [[a]] (soon)", "a", "", "needs"),
        ("- see also [[a]]", "a", "", ""),
        ("- see [[a]] for more", "a", "", ""),
        ("needs [[a]]", "a", "", ""),
        ("# Heading [[a]]", "a", "", ""),
        ("> quoted [[a]]", "a", "", ""),
    ],
)
def test_links_are_found_in_every_form(text: str, target: str, heading: str, relation: str) -> None:
    assert find(text) == [Mention(line=1, target=target, heading=heading, relation=relation)]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "[[]]",
            "[[#]]",
            "[[|x]]",
            "[[a",
            "[[a\nb]]",
            "[t](https://x.org/a.md)",
            "[t](/a.md)",
            "[t](a.py)",
            "[t](mailto:a.md)",
            "[t]()",
        ),
        *(
            "`[[a]]`",
            "`` ` [[a]] ``",
            "```\n[[a]]\n```",
            "    [[a]]",
            "- x\n\n  ```\n  [[a]]\n  ```",
            "> ~~~\n> [[a]]\n> ~~~",
        ),
        *(
            "#fff",
            "#A1B2C3",
            "#12345678",
            "#1",
            "#123",
            "a#b",
            "x.md#frag",
            "https://x.org/#frag",
            "[t](x.md#b)#c",
            "# head #tag",
            "\\#no",
        ),
        *("`#code`", "##", "&#39;", "```\n#no\n```"),
    ],
)
def test_text_that_only_looks_like_a_link_or_tag_is_not_one(text: str) -> None:
    assert [mention for mention in find(text) if mention.tag or mention.target != "x.md"] == []


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#a", ["a"]),
        ("x #a-b, #c/d. (#e_f) [#g];#h", ["a-b", "c/d", "e_f", "g", "h"]),
        ("#über #日本", ["über", "日本"]),
        ("- item #a\n- `x` #b", ["a", "b"]),
        ("#a- #b/", ["a", "b"]),
        ("#facade0 #deadbeef #feed", ["facade0", "deadbeef", "feed"]),
        ("` #a", ["a"]),
    ],
)
def test_tags_are_words_of_prose(text: str, tags: list[str]) -> None:
    assert [mention.tag for mention in find(text)] == tags


def test_a_fence_in_an_item_ends_where_it_closes() -> None:
    text = "- ```py\n  [[no]]\n  ```\n  [[yes]]\n- [[next]]"
    assert [(mention.line, mention.target) for mention in find(text)] == [(4, "yes"), (5, "next")]


def test_a_line_of_many_links_is_parsed_in_linear_time() -> None:
    assert len(find("[[a]] `b` #c " * 20_000)) == 40_000
