from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.editing.sections import contain, find_closing_lines, make_heading_line
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.markdown.sections import heading_text

WILD = """\
# one
## two
### three
###### six
####### seven
#
Title
===
---
***
```
````
~~~
```py
<!--
-->
<!-- memory: {kind: error} -->
<script>
</script>
<pre>
<style>
<textarea>
<?php
?>
<!DOCTYPE
<![CDATA[
]]>
<div>
</div>
<a
> quote
> ```
> # x
- item
- # x
  - ```
1. one
    code
\tcode
| a | b |
|---|---|
[a]: http://x
[a]:
'title
text

  ```
   # x
""".split("\n")
WILD += ["<q", "- " * 50 + "x", "> " * 120]
wild = st.lists(st.sampled_from(WILD) | st.text("#`~<>-=! a|[]", max_size=6), max_size=12)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("just words", None),
        ("### three\n#### four", None),
        ("##### five", None),
        ("# one\ntext\n## two", "### one\ntext\n#### two"),
        ("## two\n### three", "### two\n#### three"),
        ("# one\n###### six", "### one\n###### six"),
        ("Title\n===\n\nmore\n---", "### Title\n\n#### more"),
        ("Two\nlines\n---", "### Two lines"),
        ("C #\n===", "### C \\#"),
        ("   # indented", "### indented"),
        ("#", "###"),
        ("```\n# not one\n```", None),
        ("> # not one", None),
        ("```\nopen", "```\nopen\n```"),
        ("~~~~\nopen ```", "~~~~\nopen ```\n~~~~"),
        ("<!-- open\n\n# x", "<!-- open\n\n# x\n-->"),
        ("<script>\n\nx", "<script>\n\nx\n</script>"),
        ("<?php\n\nx", "<?php\n\nx\n?>"),
        ("- ```\n  open in an item", None),
        ("---\n***", None),
    ],
)
def test_a_text_stays_within_its_section(text: str, kept: str | None) -> None:
    assert contain(text.split("\n")) == (kept if kept is not None else text).split("\n")


@pytest.mark.parametrize(("last", "fence"), [("x", "```"), ("``` ````", "`````")])
def test_a_text_that_cannot_be_kept_otherwise_goes_into_a_fence(last: str, fence: str) -> None:
    # Where lists nest so deeply, the parser gives up on what follows.
    lines = ["<q", "- " * 50 + last]
    assert contain(lines) == [fence, *lines, fence]


@given(wild)
@example(["<!--", "--", "```"])
@example(["[a]:", "===", "# x"])
def test_a_heading_before_and_one_after_enclose_whatever_stands_between(lines: list[str]) -> None:
    kept = contain(lines)
    whole = ["## before", "<!-- memory: {kind: x} -->", *kept, "", "## after"]
    heads = [block for block in split_blocks(whole) if block.kind == HEADING]
    assert (heads[0].start, heads[-1].start) == (0, len(whole) - 1)
    assert all(head.level > 2 for head in heads[1:-1])


@given(wild)
def test_no_line_is_lost_but_the_marks_of_headings(lines: list[str]) -> None:
    kept = contain(lines)
    n_heads = sum(block.kind == HEADING for block in split_blocks(lines))
    if n_heads == 0:
        at = kept[: len(lines)] == lines or kept[1:-1] == lines
        assert at
        assert len(kept) - len(lines) in (0, 1, 2)
    assert contain(kept) == kept


@given(st.text("#\\ab `*", min_size=1, max_size=12))
@example("C #")
@example("###")
@example("a \\#")
def test_a_heading_line_is_one_heading(text: str) -> None:
    line = make_heading_line(2, text)
    block = split_blocks([line])[0]
    assert (block.kind, block.level) == (HEADING, 2)
    if "`" not in text and "*" not in text and "\\" not in text:
        assert heading_text([line], block) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("", []),
        ("words", []),
        ("```\nx", ["```"]),
        ("````\nx\n```", ["````"]),
        ("<!-- x", ["-->"]),
        ("<!-- x -->", []),
        ("- a\n  ```", []),
        ("<PRE>\n\n", ["</pre>"]),
        ("<textarea>", ["</textarea>"]),
        ("<!DOCTYPE", [">"]),
        ("<![CDATA[", ["]]>"]),
    ],
)
def test_what_a_note_left_open_is_closed(text: str, closing: list[str]) -> None:
    assert find_closing_lines(text.split("\n")) == closing
