"""A note becomes HTML without any markup of its own, with the numbers of its lines."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.markdown.render import (
    LINE_LIMIT_CHARS,
    WINDOW_CHARS,
    WINDOW_LINES,
    find_window,
    render_html,
)

TAGS = frozenset(
    "h1 h2 h3 h4 h5 h6 p ul ol li blockquote pre code table thead tbody tr th td a em strong s hr "
    "br".split()
)
ATTRIBUTES = frozenset("data-line data-note href rel target class start style".split())
HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>",
    "[a](javascript:alert(1))", "[a](data:text/html,x)", "[a](//evil.example)",
    "![a](https://evil.example/x.png)", "<a href='javascript:x'>", '[[x" onclick="y]]',
    "![[x|<b>]]", "<https://e.example/?a=\"'>", "<!-- a -->", "```<i>", "&#106;avascript:",
    "\u202eabc",
]  # fmt: skip
texts = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=30), max_size=8).map("\n".join)


class Page(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def render(text: str, first_line: int = 1) -> str:
    return render_html(text.split("\n"), first_line)


@given(texts)
def test_no_markup_of_a_note_reaches_the_page(text: str) -> None:
    for tag, attributes in Page(render(text)).tags:
        assert tag in TAGS
        assert attributes.keys() <= ATTRIBUTES
        assert (attributes.get("style") or "text-align:").startswith("text-align:")
        href = attributes.get("href")
        assert href in (None, "#") or re.match(r"https?://|mailto:", href, re.IGNORECASE)


@given(texts, st.integers(1, 1000))
def test_each_number_names_a_line_of_the_text(text: str, first_line: int) -> None:
    n_lines = text.count("\n") + 1
    for _, attributes in Page(render(text, first_line)).tags:
        if (line := attributes.get("data-line")) is not None:
            assert first_line <= int(line) < first_line + n_lines


def test_blocks_name_the_line_on_which_they_begin() -> None:
    text = "---\nkind: decision\n---\n# Head\n<!-- memory: {kind: a} -->\n\nText.\n\n- one\n- two"
    html = render(text)
    assert '<h1 data-line="4">Head</h1>' in html
    assert '<p data-line="7">Text.</p>' in html
    assert '<li data-line="10">two</li>' in html
    assert "kind" not in html


def test_a_comment_within_code_is_shown() -> None:
    assert "&lt;!-- c --&gt;" in render("```\n<!-- c -->\n```")
    assert "c" not in render("<!-- c -->")


def test_links_lead_to_notes_or_to_web_pages() -> None:
    for text, link in (
        ("[[Other|its label]]", '<a href="#" data-note="Other">its label</a>'),
        ("![[Embedded]]", '<a href="#" data-note="Embedded">Embedded</a>'),
        ("[n](../n.md#a)", '<a href="#" data-note="../n.md#a">n</a>'),
        ("![alt](i.png)", '<a class="image" href="#" data-note="i.png">alt</a>'),
        (
            "[w](https://a.example)",
            '<a href="https://a.example" rel="noopener noreferrer" target="_blank">w</a>',
        ),
    ):
        assert link in render(text), text


def test_a_line_of_a_megabyte_is_cut_and_deep_nesting_ends() -> None:
    assert len(render("x" * 1_000_000)) < LINE_LIMIT_CHARS + 100
    assert render("> " * 5000 + "x")
    assert render("- " * 5000 + "x")


LONG = st.lists(
    st.sampled_from(["# Head", "", "text", "```", "x" * (WINDOW_CHARS // 20)]), max_size=40
).map(lambda lines: [text for line in lines for text in [line, *["text"] * (WINDOW_LINES // 8)]])


@given(LONG)
def test_windows_of_a_long_note_follow_each_other_without_a_gap(lines: list[str]) -> None:
    at = 1
    while at <= len(lines):
        first, last = find_window(lines, at)
        assert first == at
        assert last >= at
        assert find_window(lines, last) == (first, last)
        assert last - first < 3 * WINDOW_LINES
        assert sum(map(len, lines[first - 1 : last])) <= 4 * WINDOW_CHARS
        at = last + 1


def test_a_window_ends_before_a_heading_and_not_within_code() -> None:
    section = ["# Head", "", *["text"] * (WINDOW_LINES - 1)]
    assert find_window(section * 3, 1) == (1, WINDOW_LINES + 1)
    assert find_window(section * 3, WINDOW_LINES + 2)[0] == WINDOW_LINES + 2
    code = ["```", *["# comment"] * (WINDOW_LINES + 100), "```", "# Head"]
    assert find_window(code, 1) == (1, WINDOW_LINES + 102)
    assert find_window(["short"], 1) == (1, 1)
    assert find_window(["short"], 99) == (1, 1)
