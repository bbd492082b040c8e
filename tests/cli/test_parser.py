from __future__ import annotations

import pytest
from hypothesis import given, settings
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
        "params": {},
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


def test_options_may_be_at_any_position() -> None:
    found = read("--json", "a", "--tag", "x", "b", "--tag=y", "c")
    assert (found["first"], found["rest"], found["tag"], found["json"]) == (
        "a",
        ["b", "c"],
        ["x", "y"],
        True,
    )


def test_after_two_dashes_every_word_is_an_argument() -> None:
    assert read("--", "--json", "-n", "--")["rest"] == ["-n", "--"]


def test_one_dash_is_an_argument() -> None:
    assert read("-")["first"] == "-"


def test_help_is_recognized_among_invalid_arguments() -> None:
    assert read("--help")["help"] is True


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


def test_a_mistyped_option_is_refused_with_the_nearest() -> None:
    assert refuse(PLAIN, "a", "--lmit=3").hint == "did you mean --limit?"


def test_a_superfluous_argument_is_refused() -> None:
    assert refuse(load_command("get"), "a", "b").message == "plain: too many arguments: b"


def test_a_value_outside_a_closed_list_is_refused_with_the_list() -> None:
    error = refuse(load_command("completion"), "tcsh")
    assert (error.message, error.hint) == (
        "plain: no such shell: tcsh",
        "choose from bash, zsh, fish",
    )


def test_a_search_keeps_excluded_words() -> None:
    args = parse_command(
        "search",
        SEARCH,
        ["redis", "-draft", "-n3", "-now", "-2024", "--kind", "decision", '-"old plan"'],
    )
    assert args.query == ["redis", "-draft", "-now", "-2024", '-"old plan"']
    assert (args.limit, args.kind) == (3, ["decision"])


def test_a_search_recognizes_an_option_with_a_missing_dash() -> None:
    assert refuse(SEARCH, "redis", "-json").hint == "the option is --json"


def test_a_search_still_refuses_unknown_long_options() -> None:
    assert refuse(SEARCH, "redis", "--tga", "x").hint == "did you mean --tag?"


@pytest.mark.parametrize("text", ["- an item", "--- \nkind: x", "-a b=c", "--two words"])
def test_a_word_with_blanks_is_text_even_if_it_begins_with_a_dash(text: str) -> None:
    assert read(text)["first"] == text


def test_a_value_with_blanks_may_be_attached_to_its_flag() -> None:
    assert read("a", "--tag=two words", "--tag", "- three")["tag"] == ["two words", "- three"]


@settings(deadline=None, max_examples=100)
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


@pytest.mark.parametrize("name", ENTRIES)
def test_every_command_of_the_table_exists_and_has_help_for_each_argument(name: str) -> None:
    command = load_command(name)
    assert callable(command.run)
    assert all(
        [
            *(argument.help for argument in command.arguments),
            *(option.help for option in command.options),
        ]
    )
    flags = [flag for option in command.options for flag in option.flags]
    assert len(flags) == len(set(flags))


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
