"""Find prompt injections, which are phrases and markup that turn a note into orders for a model.
Report injections and secrets as problems of a note.

A note may mention an injection without harm, so a match is reported and nothing is removed. An
attacker can find other words, so a note without a match may still be harmful. Each sort is reported
once for each note, at its first place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from memsyncd.core.guard.secrets import Prefilter, Secret, find_secrets, fold_case
from memsyncd.core.model import Problem, SecretLines, Span


class Injection(NamedTuple):
    """An injection: its offset in characters, and a description that can follow the name of a
    note.
    """

    start: int
    what: str


class InjectionPattern(NamedTuple):
    """A pattern that is tried only where one of `hints` occurs. It must match at the hint; if
    `back` is not 0, it may match anywhere from `back` characters before the hint.

    The text before a match may make it harmless: if `describes` matches the end of that text, the
    sentence only describes an order or forbids it. A match with the group `weak` counts only if it
    begins a sentence or a request.
    """

    what: str
    hints: Prefilter
    pattern: re.Pattern[str]
    back: int = 0
    describes: re.Pattern[str] | None = None


class MarkupPattern(NamedTuple):
    """Markup that begins with `<`. This character is rare, so the whole `pattern` is searched."""

    what: str
    pattern: re.Pattern[str]


_ANY = r"(?:[\w'-]{1,20}[ \t\n]{1,4}){0,3}?"
_WHICH = r"(?:(?:all|any|every|each|of|the|these|those|that|your|my|and)[ \t\n]{1,4}){0,4}?"
_EARLIER = r"(?:previous|prior|above|earlier|preceding|foregoing|original|system|your|safety)"
_BEFORE_THIS = r"(?:previous|prior|above|earlier|preceding|foregoing|your|safety)"
_ORDERS = r"(?:instruct\w{1,6}|prompts?|directives?|guidelines)"
_RULES = r"(?:programming|training|messages?|rules|directions|policies)"
# The phrase must end here: `ignore the previous rules.` is an order, and `ignore the previous rules
# for the garden` is not, because it names the rules of one subject.
_LAST = r"(?=[ \t]{0,2}(?:[.,;:!?\"'”)\]*_`—–-]|\n|\Z|(?:and|that|you|given|about)\b))"
_READER = (
    r"(?:ai|a\.i\.|(?:ai[ \t]|coding[ \t])?(?:assistants?|agents?)|claude(?:[ \t]code)?"
    r"|(?:chat)?gpt[\w.-]{0,8}|gemini|copilot"
    r"|llms?|(?:large[ \t])?language[ \t]models?)"
)
_ROLE = (
    r"(?:assistant|ai|model|bot|agent|chatbot|hacker|expert|character|persona|llm|terminal"
    r"|interpreter|pirate)"
)
_TO_READER = (
    r"(?:(?:a )?(?:note|notice|message|instructions?)[ \t:,]{1,3}(?:(?:to|for) )?"
    r"(?:all |any |the )?"
    r"|(?:hey|dear|attention)[ \t,]{1,3}|if you are an? )?"
)

_FORGET = re.compile(
    rf"(?i)(?:ignore|disregard|forget)[ \t\n]{{1,4}}"
    rf"(?:{_ANY}{_EARLIER}[ \t\n]{{1,4}}{_ANY}{_ORDERS}\b"
    r"(?![ \t\n]{1,4}(?:if|unless|when)\b)"
    rf"|everything[ \t\n]{{1,4}}(?:above|before|prior|you)\b"
    rf"|(?P<weak>{_WHICH}(?:{_BEFORE_THIS}[ \t\n]{{1,4}}"
    rf"(?:and[ \t]{{1,4}}{_BEFORE_THIS}[ \t]{{1,4}})?{_RULES}"
    rf"|(?:{_ORDERS}|{_RULES})[ \t\n]{{1,4}}(?:above|before)){_LAST}))"
)
_DESCRIBES = re.compile(
    r"(?i)(?:\b(?:not|never|cannot|we|they|it|he|she|which|that|who|can|could|may|might|would"
    r"|will|to|users?|models?|people|often)"
    r"|n['’]t)[ \t\n]{1,4}\Z"
)
_ORDERS_BEGIN = re.compile(
    r"(?i)(?:\A|[^\w \t]"
    r"|\b(?:please|kindly|now|then|and|must|should|always|first|you(?:[ \t]to)?))[ \t]{0,4}\Z"
)
_LOOK_BEHIND_CHARS = 24
_ABOUT_IT = (
    r"(?=[ \t]{0,2}(?:[.,;:!?\"'”)\]*_`—–-]|\n|\Z|of this\b|about "
    r"(?:this|that|it|these|any|what you)\b|that you\b|what you\b))"
)
_DOES = (
    r"(?:send|run|execute|push|delete|remove|upload|post|copy|e-?mail|forward|add|install"
    r"|download|read|write|open|call|do"
    r"|act|reply)"
)

INJECTION_PATTERNS = (
    InjectionPattern(
        "tells its reader to forget earlier instructions",
        Prefilter(b"ignore", b"disregard", b"forget", letter=b"g"),
        _FORGET,
        describes=_DESCRIBES,
    ),
    InjectionPattern(
        "gives its reader another role",
        Prefilter(b"you are now"),
        re.compile(
            rf"(?i)you are now[ \t\n]{{1,4}}(?:(?:an?|the|my|our)[ \t\n]{{1,4}}{_ANY}{_ROLE}\b"
            rf"|dan\b|jailbroken|unrestricted"
            r"|free (?:of|from)[ \t\n]{1,4}"
            r"(?:(?:all|any|your|these|those|the|its|previous)[ \t\n]{1,4}){0,3}"
            r"(?:restrict|rule|limit|constrain|guideline|filter|polic|censor)"
            r"|no longer (?:bound|restricted|an?)\b|in (?:developer|god|dan|jailbreak) mode)"
        ),
    ),
    InjectionPattern(
        "tells its reader to keep something from the user",
        Prefilter(b"the user"),
        re.compile(
            r"(?i)(?:(?:do not|don['’]?t|never)[ \t\n]{1,4}(?:tell|mention|inform|reveal)"
            r"[ \t\n]{1,4}"
            r"(?:(?:this|that|it|any of this|anything)[ \t\n]{1,4}(?:to[ \t\n]{1,4})?the user\b"
            rf"|(?:to[ \t\n]{{1,4}})?the user\b{_ABOUT_IT})"
            rf"|(?:(?<![\w \t])[ \t]{{0,4}}|\b(?:please|then|and)[ \t]){_DOES}\b[^.!?\n]{{0,60}}"
            r"without[ \t\n]{1,4}(?:telling|informing)[ \t\n]{1,4}the user\b)"
        ),
        back=90,
    ),
)

MARKUP_PATTERNS = (
    MarkupPattern(
        "addresses an assistant in a comment, which is invisible when rendered",
        re.compile(
            rf"(?i)<!--[ \t\n]{{0,8}}{_TO_READER}{_READER}[ \t]{{0,2}}[:,.!—–-](?=\s)"
            rf"(?!.{{0,12}}-->)"
        ),
    ),
    MarkupPattern(
        "looks like the frame of a conversation",
        re.compile(
            r"(?i)<(?:\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|begin_of_text"
            r"|start_header_id)\|>"
            r"|system[-_](?:reminder|prompt|message|instructions?)>|<SYS>>)"
        ),
    ),
    MarkupPattern(
        "looks like a call of a tool or its result",
        re.compile(
            r"(?i)<(?:[a-z]{1,12}:)?(?:function_(?:calls?|results?)>|invoke name="
            r"|tool_(?:use|result|calls?|response)[ >])",
        ),
    ),
)

_OPENING = re.compile(
    r"(?i)<(?:!--[ \t\n]{0,8}[a-z]|[|<]|system|(?:[a-z]{1,12}:)?(?:function_|invoke |tool_))"
)
_WHAT_HIDES = "hides text from people with invisible characters"
_WHAT_TURNS = "hides text from people with characters that reverse the order of other characters"
_UNSEEN = re.compile(
    # An emoji has one or two characters of the last group, so only three in a row count.
    "[\u200b\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e01ef]|[\u200c-\u200f\ufe00-\ufe0f]{3}"
)
_ASCII = bytes(range(128))
_HIDES = re.compile(
    # Invisible characters within a word: no search and no filter finds the word.
    "(?<=[A-Za-z])[\u200b\u2060-\u2064\ufeff]{1,64}(?=[A-Za-z])"
    # Two or three different zero-width characters spell a hidden text. Khmer and Thai repeat one.
    "|(?=([\u200b-\u200f\u2060-\u2064\ufeff])\\1{0,63}(?!\\1)[\u200b-\u200f\u2060-\u2064\ufeff])"
    "[\u200b-\u200f\u2060-\u2064\ufeff]{4,64}"
    # Several variation selectors spell a hidden text. An emoji has only one.
    "|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,64}"
    # Tag letters spell a hidden text. After a black flag they spell the flag of a region.
    "|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]"
)
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


def find_injections(text: str, folded: bytes | None = None) -> list[Injection]:
    """Return the first injection of each sort, in order of offset. `folded` is `fold_case(text)`,
    if the caller has computed it.
    """
    folded = fold_case(text) if folded is None else folded
    places = [*_find_patterns(text, folded), *(() if text.isascii() else _find_unseen(text))]
    first: dict[str, int] = {}
    for start, what in sorted(places):
        first.setdefault(what, start)
    return [Injection(start, what) for what, start in first.items()]


def describe_injections(text: str) -> str:
    """Describe the first three injections of a text; empty if it has none."""
    return ", and ".join(injection.what for injection in find_injections(text)[:3])


def _find_patterns(text: str, folded: bytes) -> Iterator[Injection]:
    for pattern in INJECTION_PATTERNS:
        for at, _ in pattern.hints.find(folded):
            if match := _match(text, pattern, at):
                yield Injection(match.start(), pattern.what)
                break
    if opening := _OPENING.search(text):
        for markup in MARKUP_PATTERNS:
            if match := markup.pattern.search(text, opening.start()):
                yield Injection(match.start(), markup.what)


def _match(text: str, pattern: InjectionPattern, at: int) -> re.Match[str] | None:
    if pattern.back:
        return pattern.pattern.search(text, max(0, at - pattern.back), at + 40)
    match = pattern.pattern.match(text, at)
    if match is None or pattern.describes is None:
        return match
    before = text[max(0, at - _LOOK_BEHIND_CHARS) : at]
    is_order = not match["weak"] or _ORDERS_BEGIN.search(before)
    return match if is_order and not pattern.describes.search(before) else None


def _find_unseen(text: str) -> Iterator[Injection]:
    # Most texts have few characters beyond ASCII, so a search of these alone is short.
    beyond = text.encode("utf-8", "replace").translate(None, _ASCII).decode()
    if not _UNSEEN.search(beyond):
        return
    if hidden := _HIDES.search(text):
        yield Injection(hidden.start(), _WHAT_HIDES)
    for turned in _TURNS.finditer(text):
        start, end = text.rfind("\n", 0, turned.start()) + 1, text.find("\n", turned.start())
        line = text[start : end if end >= 0 else len(text)]
        # In a right-to-left line each of these characters has a proper use, except the overrides.
        if turned[0] in "\u202d\u202e" or not _RIGHT_TO_LEFT.search(line):
            yield Injection(turned.start(), _WHAT_TURNS)
            return


SECRET, PROMPT_INJECTION = "secret", "prompt_injection"
# The first secrets of a note, at most this many, get a problem each. One more problem counts the
# others: nobody corrects a dump of thousands one by one.
REPORTED_SECRETS_LIMIT = 20

PURGE: Final = "memsyncd history purge --containing -"
_REMEDY = f"if it is real, revoke it and remove it, then purge it from the history: {PURGE}"
_EXAMPLE = "it is marked as an example and is not masked; if it is real, revoke it and remove it"
_REVIEW = "check whether it is intended before an agent reads it"


class GuardPolicy(Protocol):
    """Which checks to run on notes."""

    @property
    def has_secrets(self) -> bool: ...
    @property
    def has_instructions(self) -> bool: ...


class Warnings(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the checks. `secrets` has the lines of each secret except examples."""

    problems: tuple[Problem, ...] = ()
    secrets: tuple[SecretLines, ...] = ()


NO_WARNINGS = Warnings()


def find_warnings(path: str, text: str, policy: GuardPolicy) -> Warnings:
    r"""Check a note's text, which has `\n` for every line end."""
    folded = fold_case(text)
    secrets = find_secrets(text, folded) if policy.has_secrets else []
    injections = find_injections(text, folded) if policy.has_instructions else []
    if not secrets and not injections:
        return NO_WARNINGS
    firsts = _line_numbers(text, [secret.start for secret in secrets])
    lasts = _line_numbers(text, [secret.end - 1 for secret in secrets])
    lines = _line_numbers(text, [injection.start for injection in injections])
    return Warnings(
        problems=(
            *_report_secrets(path, secrets, firsts),
            *(
                Problem(
                    path=path,
                    line=line,
                    code=PROMPT_INJECTION,
                    problem=injection.what,
                    hint=_REVIEW,
                )
                for line, injection in zip(lines, injections, strict=True)
            ),
        ),
        secrets=tuple(
            SecretLines(span=Span(first, last), what=secret.what)
            for secret, first, last in zip(secrets, firsts, lasts, strict=True)
            if not secret.is_example
        ),
    )


def _report_secrets(
    path: str, secrets: Sequence[Secret], lines: Sequence[int]
) -> Iterator[Problem]:
    for secret, line in zip(
        secrets[:REPORTED_SECRETS_LIMIT], lines[:REPORTED_SECRETS_LIMIT], strict=True
    ):
        hint = _EXAMPLE if secret.is_example else _REMEDY
        yield Problem(
            path=path,
            line=line,
            code=SECRET,
            problem=f"holds what looks like a secret: {secret.what}",
            hint=hint,
        )
    if len(secrets) > REPORTED_SECRETS_LIMIT:
        more = f"holds {len(secrets) - REPORTED_SECRETS_LIMIT:,} more texts that look like secrets"
        yield Problem(
            path=path, line=lines[REPORTED_SECRETS_LIMIT], code=SECRET, problem=more, hint=_REMEDY
        )


def _line_numbers(text: str, places: Sequence[int]) -> list[int]:
    """The line (1-based) of each offset. The offsets must be in order, so that each part of the
    text is counted once.
    """
    lines: list[int] = []
    line, at = 1, 0
    for place in places:
        line, at = line + text.count("\n", at, place), place
        lines.append(line)
    return lines
