from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.links import (
    Mention,
    find_definitions,
    find_link_targets,
    find_mentions,
)
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
        ("[t](a.md)", "a.md", "", ""),
        ("[t](../x/a.markdown#b)", "../x/a.markdown", "b", ""),
        ("[t](<a b.txt> 'title')", "a b.txt", "", ""),
        ("[t](a.md?x=1&y=2#b)", "a.md", "b", ""),
        ("[t](what?.md)", "what?.md", "", ""),
        ("[t](b\\[1\\].md)", "b\\[1\\].md", "", ""),
        ("[t](c(1).md) ok)", "c(1).md", "", ""),
        ("[t](c\\(1\\).md 'title')", "c\\(1\\).md", "", ""),
        ("[t](#b)", "", "b", ""),
        ("- supersedes [[a]]", "a", "", "supersedes"),
        ("1. part_of: [[a#b]]", "a", "b", "part_of"),
        ("  * [ ] needs [[a]] (soon)", "a", "", ""),
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
        "[[]]", "[[#]]", "[[|x]]", "[[a", "[[a\nb]]", "[t](https://x.org/a.md)", "[t](/a)",
        "[t](//x.org/a.md)", "[t](a.py)", "[t](mailto:a.md)", "[t]()", "`[[a]]`", "`` ` [[a]] ``",
        "```\n[[a]]\n```", "    [[a]]", "- x\n\n  ```\n  [[a]]\n  ```", "> ~~~\n> [[a]]\n> ~~~",
        "#fff", "#A1B2C3", "#12345678", "#1", "#123", "a#b", "x.md#frag", "https://x.org/#frag",
        "[t](x.md#b)#c", "##no", "\\#no", "`#code`", "##", "&#39;", "```\n#no\n```",
    ],
)  # fmt: skip
def test_text_that_only_looks_like_a_link_or_tag_is_not_one(text: str) -> None:
    assert [mention for mention in find(text) if mention.tag or mention.target != "x.md"] == []


def test_tags_are_words_of_prose() -> None:
    for text, tags in (
        ("#a", ["a"]),
        ("x #a-b, #c/d. (#e_f) [#g];#h", ["a-b", "c/d", "e_f", "g", "h"]),
        ("#über #日本", ["über", "日本"]),
        ("- item #a\n- `x` #b", ["a", "b"]),
        ("#a- #b/", ["a", "b"]),
        ("#facade0 #deadbeef #feed", ["facade0", "deadbeef", "feed"]),
        ("` #a", ["a"]),
        ("## Title #a\n\nSetext #b\n===", ["a", "b"]),
    ):
        assert [mention.tag for mention in find(text)] == tags, text


def test_a_fence_in_an_item_ends_where_it_closes() -> None:
    text = "- ```py\n  [[no]]\n  ```\n  [[yes]]\n- [[next]]"
    assert [(mention.line, mention.target) for mention in find(text)] == [(4, "yes"), (5, "next")]


def test_a_line_of_many_links_is_parsed_in_linear_time() -> None:
    assert len(find("[[a]] `b` #c " * 20_000)) == 40_000


UUID = "0b0c7a3e-1111-2222-3333-444455556666"


def test_links_are_found_in_the_syntax_of_each_tool() -> None:
    for text, links in (
        ("![[a.md]]", [("a.md", "", "embed")]),
        ("{{embed [[a]]}}", [("a", "", "embed")]),
        (f"{{{{embed (({UUID}))}}}}", [(f"(({UUID}))", "", "embed")]),
        (f"[[(({UUID}))]] [[(({UUID}))|shown]]", [(f"(({UUID}))", "", "link")] * 2),
        (f"see (({UUID}))", [(f"(({UUID}))", "", "link")]),
        ("[[a#^b1]] [[a^b1]] [[#^b1]] [[^b1]]", [
            ("a", "^b1", "link"), ("a", "^b1", "link"), ("", "^b1", "link"), ("", "^b1", "link")]),
        ("| [[a\\|label]] |", [("a", "", "link")]),
        ("[label]([[a]])", [("a", "", "link")]),
        ("[t](b/c)", [("b/c", "", "path")]),
        ("[[custom.css]] ![[custom.css]] [t](custom.css)", [("custom.css", "", "name")]),
        ("[t](c.png) [[c.png]] ![[d.pdf#page=3]] [[https://a.b]] [[{{title}}]]", []),
        ("see [[n]], [t][n] and [N]\n\n[n]: x/n.md 'N'", [("x/n.md", "", "link")] * 3),
        ("see [[n]], [t][n]\n\n[n]: x/n", [("x/n", "", "path")] * 2),
        ("see [n], [^1]\n\n[n]: https://a.b\n[^1]: x.md", []),
        ("`[[a]]` `((x))` ```", []),
        ("text\n\n\t- [[a]]\n\t  ```\n\t  [[b]]\n\t  ```\n\t\t- [[c]]", [
            ("a", "", "link"), ("c", "", "link")]),
        ("text\n\n    - [[a]]\n\n\tx [[b]]", []),
    ):  # fmt: skip
        assert [
            (link.target, link.heading, link.kind) for link in find(text) if link.is_link
        ] == links, text


def test_fields_are_found_on_lines_and_in_brackets() -> None:
    for text, fields in (
        ("owner:: ann", [("owner", "ann")]),
        ("- **Due Date**:: 2026-01-02", [("Due Date", "2026-01-02")]),
        ("- [x] done [by:: [[ann]]] (on:: monday)", [("by", "[[ann]]"), ("on", "monday")]),
        ("run:: `make all`", [("run", "`make all`")]),
        ("`a:: b` std::vector, a::b, a ::b, a::", []),
        ("12:: no", []),
    ):
        assert [mention.field for mention in find(text) if mention.field] == fields, text


def test_names_of_blocks_are_found_at_their_ends() -> None:
    for text, names in (
        ("text ^B-1", ["^b-1"]),
        ("^b1", ["^b1"]),
        (f"- block\n  id:: {UUID}", [f"(({UUID}))"]),
        ("2^10 a^b x ^b c", []),
        ("`x ^b1`", []),
    ):
        assert [mention.block for mention in find(text) if mention.block] == names, text


def test_a_link_behind_a_number_sign_is_a_tag_too() -> None:
    assert [mention.tag for mention in find("#[[two words]] and [[no tag]]") if mention.tag] == [
        "two words"
    ]


DEFINITIONS = ["[a]: b.md", "[A]: other.md", "   [c]: <d e.md> 't'", "    [x]: code.md", "[^1]: no"]
OTHERS = [
    "", "text", "see [a]: b.md", "[b]: https://x.y", "[d]: x.png", "]:", "[e]: y.md z ]: w", "[i]:",
]  # fmt: skip


@given(st.lists(st.sampled_from([*DEFINITIONS, *OTHERS]), max_size=8))
def test_a_text_has_the_definitions_of_its_lines(lines: list[str]) -> None:
    expected: dict[str, str] = {}
    for line in lines:
        for label, target in find_definitions(line).items():
            expected.setdefault(label, target)
    assert find_definitions("\n".join(lines)) == expected


def test_the_targets_of_definitions_are_rewritten() -> None:
    text = "see [[n]]\n\n[n]: <x y.md> 'N'\n[o]: o%20p#q"
    lines = text.split("\n")
    targets = find_link_targets(text, lines, split_blocks(lines))
    assert [(text[target.start : target.end], target.is_encoded, target.is_path) for target in targets] == [
        ("n", False, False), ("x y.md", False, False), ("o%20p", True, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        ('up: "[[a]]"', ["a"]), ("up: '[[a b#c|d]]'", ["a b"]), ("up: [[a b]]", ["a b"]),
        ('  - "- see [[a]]"', ["a"]), ('see: ["[[a, b]]", "[[c]]"]', ["a, b", "c"]),
        ("matrix: [[1, 2]]", []), ("matrix: [[1.5]]", []), ("matrix: [[a], [b]]", []),
        ('# up: "[[a]]"', []), ("see: '[t](a.md) #tag ^block'", []), ('up: "[[{{title}}]]"', []),
        ('cover: "[[a.png]]"', []),
    ],
)  # fmt: skip
def test_in_front_matter_only_links_in_brackets_count(line: str, targets: list[str]) -> None:
    text = f"---\ntitle: t\n{line}\n---\n[[body]]"
    lines = text.split("\n")
    blocks = [*find_front_matter("a.md", lines).blocks, *split_blocks(lines, 4)]
    mentions = find_mentions(text, lines, blocks)
    assert [mention.target for mention in mentions] == [*targets, "body"]
    assert not any(mention.relation or mention.tag or mention.block for mention in mentions)
    assert [mention.line for mention in mentions] == [*[3] * len(targets), 5]
    link_targets = list(find_link_targets(text, lines, blocks))
    assert [text[mention.start : mention.end] for mention in link_targets] == [*targets, "body"]
    assert [mention.is_property for mention in link_targets] == [*[True] * len(targets), False]
