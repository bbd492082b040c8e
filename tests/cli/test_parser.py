from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.cli.commands import ENTRIES, load_command
from memsyncd.errors import BadRequest
from memsyncd.terminal.parser import (
    JSON,
    Argument,
    Command,
    Option,
    parse_command,
    parse_fraction,
    parse_pair,
)

PLAIN = Command(
    lambda args, console: 0,
    arguments=(Argument("first", "FIRST", ""), Argument("rest", "[REST…]", "")),
    options=(
        Option("-n --limit N", ""),
        Option("--tag T…", ""),
        Option("--min-score S", "", parse=parse_fraction),
        JSON,
    ),
)
SEARCH = load_command("search")


def read(*words: str) -> dict[str, object]:
    return vars(parse_command("plain", PLAIN, words))


def refuse(command: Command, *words: str) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse_command("plain", command, words)
    return caught.value


def test_a_missing_argument_is_none_false_or_empty() -> None:
    assert read("a") == {
        "first": "a",
        "rest": [],
        "limit": None,
        "tag": [],
        "min_score": None,
        "json": False,
        "help": False,
        "color": None,
        "no_pager": False,
        "params": {},
        "typed": {},
        "lists": "",
        "each": None,
    }


@pytest.mark.parametrize(
    "words", [("-n", "5"), ("-n5",), ("-n=5",), ("--limit", "5"), ("--limit=5",)]
)
def test_a_value_may_follow_its_flag_or_be_attached_to_it(words: tuple[str, ...]) -> None:
    assert read("a", *words)["limit"] == 5


@pytest.mark.parametrize(
    ("words", "value"), [((), None), (("--open",), 1), (("--open", "2"), 1), (("--open=2",), 2)]
)
def test_a_flag_with_an_optional_value_takes_it_only_if_attached(
    words: tuple[str, ...], value: object
) -> None:
    assert parse_command("search", SEARCH, ["a", *words]).open == value


@pytest.mark.parametrize(
    ("words", "parsed"),
    [
        (
            ["--json", "a", "--tag", "x", "b", "--tag=y", "c"],
            {"first": "a", "rest": ["b", "c"], "tag": ["x", "y"], "json": True},
        ),
        (["--", "--json", "-n", "--"], {"first": "--json", "rest": ["-n", "--"], "json": False}),
        (["-"], {"first": "-"}),
        (["--help"], {"help": True}),
        *((["- an item", text], {"rest": [text]}) for text in ("--- \nkind: x", "-a b=c", "--x y")),
        (["a", "--tag=two words", "--tag", "- three"], {"tag": ["two words", "- three"]}),
    ],
)
def test_options_stand_anywhere_and_text_may_begin_with_a_dash(
    words: list[str], parsed: dict[str, object]
) -> None:
    args = read(*words)
    assert {name: args[name] for name in parsed} == parsed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "plain: FIRST is missing"),
        (("a", "-n"), "plain: -n needs a value: -n N"),
        (("a", "-n", "--json"), "plain: -n needs a value: -n N"),
        (("a", "-n", "0"), "plain: -n 0: expected a whole number from 1"),
        (("a", "-n", "five"), "plain: -n five: expected a whole number from 1"),
        (("a", "--min-score", "1.1"), "plain: --min-score 1.1: expected a number from 0 to 1"),
        (("a", "--min-score", "nan"), "plain: --min-score nan: expected a number from 0 to 1"),
        (("a", "--json=yes"), "plain: --json takes no value"),
        (("a", "-x"), "plain: no such option: -x"),
    ],
)
def test_an_invalid_argument_is_an_exact_error(words: tuple[str, ...], message: str) -> None:
    error = refuse(PLAIN, *words)
    assert error.message == message
    assert error.exit_status == 2
    assert error.hint


@pytest.mark.parametrize(
    ("command", "words", "message", "hint"),
    [
        (PLAIN, ["a", "--lmit=3"], "no such option: --lmit", "did you mean --limit?"),
        (load_command("get"), ["a", "b"], "too many arguments: b", "see `memsyncd plain --help`"),
        (
            load_command("completion"),
            ["tcsh"],
            "no such shell: tcsh",
            "choose from bash, zsh, fish",
        ),
        (SEARCH, ["a", "-json"], "-json would exclude a word", "the option is --json"),
        (SEARCH, ["a", "--tga", "x"], "no such option: --tga", "did you mean --tag?"),
    ],
)
def test_an_invalid_word_is_refused_with_what_was_meant(
    command: Command, words: list[str], message: str, hint: str
) -> None:
    error = refuse(command, *words)
    assert (error.message, error.hint) == (f"plain: {message}", hint)


def test_a_search_keeps_excluded_words() -> None:
    args = parse_command(
        "search",
        SEARCH,
        ["redis", "-draft", "-n3", "-now", "-2024", "--kind", "decision", '-"old plan"'],
    )
    assert args.query == ["redis", "-draft", "-now", "-2024", '-"old plan"']
    assert (args.limit, args.kind) == (3, ["decision"])


@given(
    st.lists(
        st.text(max_size=8)
        | st.sampled_from(["--", "-", "-n", "--tag", "--tag=", "--json", "-h", "-n=", "-w"]),
        max_size=8,
    )
)
def test_any_arguments_are_parsed_or_refused(words: list[str]) -> None:
    for command in (PLAIN, SEARCH):
        try:
            parse_command("any", command, words)
        except BadRequest as error:
            assert error.hint  # noqa: PT017  either outcome is right


def test_every_command_of_the_table_exists_and_has_help_for_each_argument() -> None:
    for name in ENTRIES:
        command = load_command(name)
        assert callable(command.run)
        assert all(each.help for each in (*command.arguments, *command.options)), name
        flags = [flag for option in command.options for flag in option.flags]
        assert len(flags) == len(set(flags)), name


@pytest.mark.parametrize(
    ("text", "pair"),
    [("owner=infra", ("owner", "infra")), (" why = a = b ", ("why", "a = b"))],
)
def test_a_pair_is_a_name_and_all_behind_its_first_equals_sign(
    text: str, pair: tuple[str, str]
) -> None:
    assert parse_pair(text) == pair


@pytest.mark.parametrize("text", ["", "owner", "=infra", " =x", "owner= "])
def test_a_pair_without_a_name_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as owner=infra"):
        parse_pair(text)


def test_a_pair_may_have_no_value_where_that_removes_the_old_one() -> None:
    assert parse_pair("owner=", may_be_empty=True) == ("owner", "")
    with pytest.raises(ValueError, match="expected a name"):
        parse_pair("owner", may_be_empty=True)
