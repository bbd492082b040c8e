from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.config import (
    Config,
    HistoryConfig,
    SearchConfig,
    SocketConfig,
    SourceConfig,
    StepConfig,
    SyncConfig,
    WorkspaceConfig,
    env_variable,
    find_changed_keys,
    find_keys,
)
from memsyncd.config.load import (
    FILE_LIMIT_BYTES,
    Loaded,
    load_config,
    read_config_file,
    render_config,
)
from memsyncd.core.editing.kinds import DEFAULT_KINDS, KindDefaults, is_kind
from memsyncd.errors import BadConfig

KIND = '[kinds.{name}]\nappend_to = "{note}"\nimportance = {importance}\n'


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def refusal(path: Path, text: str, env: dict[str, str] | None = None) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig) as caught:
        load_config(str(path), env or {})
    assert caught.value.hint
    return caught.value.message.replace(f"{path}:", "")


def test_without_a_file_everything_has_its_default(config_path: Path) -> None:
    loaded = load_config(str(config_path), {})
    assert loaded.config == Config()
    assert not loaded.is_file_found
    assert set(loaded.origins.values()) == {"default"}


def test_a_named_file_must_exist(config_path: Path) -> None:
    with pytest.raises(BadConfig, match="no such file"):
        load_config(str(config_path), {"MEMSYNCD_CONFIG": str(config_path)})


def test_a_step_replaces_the_predefined_one_and_is_read_in_lower_case(config_path: Path) -> None:
    config_path.write_text('[[step]]\nname = "Research"\nkind = "Insight"\n')
    config = load_config(str(config_path), {}).config
    assert config.step == (StepConfig(name="research", kind="insight"),)
    assert (config.steps["research"], config.steps["gsd"]) == ("insight", "decision")


def test_sources_of_a_project_are_configured(config_path: Path) -> None:
    config_path.write_text('[[source]]\npath = "docs/*.md"\ntags = ["index:invariants"]\n')
    config = load_config(str(config_path), {}).config
    assert config.source == (SourceConfig(path="docs/*.md", tags=("index:invariants",)),)


def test_an_invalid_step_or_source_is_refused(config_path: Path) -> None:
    for text, message in (
        ('[[step]]\nname = "a"\n', "a step needs `name` and `kind`; there is no `kind`"),
        ('[[step]]\nname = "a"\nkind = "two words"\n', "not one word"),
        (2 * '[[step]]\nname = "a"\nkind = "b"\n', "'a' is the name of another step above"),
        ('[step]\nname = "a"\n', "write `[[step]]`, in double brackets"),
        ('[[source]]\ntags = ["a"]\n', "a source needs `path"),
        ('[[source]]\npath = "/etc/hosts"\n', "not from / or ~"),
        ('[[source]]\npath = "../a.md"\n', "it holds an empty part, `.` or `..`"),
        ('[[source]]\npath = "*/a.md"\n', "in its last part alone"),
        (2 * '[[source]]\npath = "a.md"\n', "'a.md' is the path of another source above"),
    ):
        assert message in refusal(config_path, text), text


def test_a_kind_is_read_in_lower_case(config_path: Path) -> None:
    config_path.write_text('[kinds.Recipe]\nappend_to = "docs/recipes.markdown"\nimportance = 1\n')
    loaded = load_config(str(config_path), {})
    recipe = KindDefaults(append_to="docs/recipes.markdown", importance=1.0)
    assert loaded.config.kinds["recipe"] == recipe
    assert loaded.origins["kinds.recipe.append_to"] == f"{config_path}:2"


def test_environment_precedes_file_and_file_precedes_default(config_path: Path) -> None:
    config_path.write_text("[sync]\ndebounce_ms = 5\nmax_wait_ms = 50\n")
    loaded = load_config(str(config_path), {"MEMSYNCD_SYNC_DEBOUNCE_MS": "7"})
    assert (loaded.config.sync.debounce_ms, loaded.config.sync.max_wait_ms) == (7, 50)
    assert loaded.config.sync.delete_grace_ms == 1500
    assert loaded.origins["sync.debounce_ms"] == "env:MEMSYNCD_SYNC_DEBOUNCE_MS"
    assert loaded.origins["sync.max_wait_ms"] == f"{config_path}:3"
    assert loaded.origins["sync.delete_grace_ms"] == "default"


def test_every_key_has_an_environment_twin(config_path: Path) -> None:
    other = {"socket.path": "/run/other.sock", "http.listen": "127.0.0.1:7997"}
    for key, default in find_keys():
        text = other.get(key, str(default).lower())
        loaded = load_config(str(config_path), {env_variable(key): text})
        assert loaded.origins[key] == f"env:{env_variable(key)}"
        section, _, name = key.partition(".")
        assert getattr(getattr(loaded.config, section), name) == other.get(key, default)


@pytest.mark.parametrize("word", ["0", "false", "False"])
def test_a_switch_in_the_environment_accepts_the_usual_words(word: str, config_path: Path) -> None:
    assert not load_config(str(config_path), {"MEMSYNCD_SYNC_ENABLED": word}).config.sync.enabled


def test_a_variable_that_no_key_has_is_a_warning_with_the_nearest(config_path: Path) -> None:
    env = {
        "MEMSYNCD_SYNC_DEBOUCE_MS": "5",
        "MEMSYNCD_SOCKET": "/s",
        "MEMSYNCD_SOCKET_PATH": "/s",
        "MEMSYNCD_HOME": "x",
    }
    (warning,) = load_config(str(config_path), env).warnings
    assert warning.startswith("MEMSYNCD_SYNC_DEBOUCE_MS is ignored")
    assert "did you mean `MEMSYNCD_SYNC_DEBOUNCE_MS`" in warning


def test_an_invalid_value_is_refused_with_line_and_remedy(config_path: Path) -> None:
    for text, message in (
        ("[sync]\ndebouce_ms = 5", "2: sync.debouce_ms: no such key; did you mean `debounce_ms`?"),
        ("\n[sinc]", "2: sinc: no such section; did you mean `sync`?"),
        ("[log]\nqqq = 1", "2: log.qqq: no such key; there are `level`, `format`"),
        ("sync = 5", "1: sync: this is a section: write `[sync]` with its keys below"),
        ("[sync]\ndebounce_ms = 1.5", "2: sync.debounce_ms: expected a whole number, got a number"),
        ("[sync]\ndebounce_ms = true", "2: sync.debounce_ms: expected a whole number, got true"),
        ("[sync]\nenabled = 1", "2: sync.enabled: expected true or false, got a whole number"),
        ("[sync]\ndebounce_ms = -1", "2: sync.debounce_ms: expected a whole number >= 0"),
        ("[sync]\nreconcile_s = nan", "2: sync.reconcile_s: expected a number >= 0.05"),
        ("[search]\nmin_score = inf", "2: search.min_score: expected a number <= 1.0"),
        ('[log]\nlevel = "loud"', '2: log.level: expected one of "debug", "info", "warning",'),
        ("[sync]\ndebounce_ms = 2000", "2: sync.debounce_ms: debounce_ms (2000) is more than"),
        ("[chunking]\nmax_tokens = 70", "2: chunking.max_tokens: overlap (70) is not less than"),
        ('[http]\nlisten = "0.0.0.0:80"', "2: http.listen: '0.0.0.0:80' is not a loopback"),
        ('[socket]\npath = "run/s"', "2: socket.path: 'run/s' is not an absolute path: begin it"),
        ("[workspace]\n", "1: workspace: write `[[workspace]]`, in double brackets, once for"),
        ('[[workspace]]\nname = "a"', '1: workspace.0: a workspace needs `path = "…"`, the folder'),
        ('[[workspace]]\npath = "a"', "2: workspace.0.path: 'a' is not an absolute path: begin"),
        ('[[workspace]]\npath = "/a"\ninclude = "x"', "3: workspace.0.include: expected a list,"),
        (
            '[[workspace]]\npath = "/a"\ninclude = [".x/*.md"]',
            "3: workspace.0.include: '.x/*.md': it holds a hidden name",
        ),
        (
            '[[workspace]]\npath = "/a"\nexclude = ["a/../b"]',
            "3: workspace.0.exclude: 'a/../b': it holds an empty part, `.` or `..`",
        ),
        (
            '[[workspace]]\npath = "/a"\n[[workspace]]\npath = "/a/"',
            "4: workspace.1.path: '/a' is the path of another workspace above",
        ),
        (
            '[[workspace]]\npath = "/a"\nuser = true\n[[workspace]]\npath = "/b"\nuser = true',
            "6: workspace.1.user: another workspace above is user-wide: leave this out",
        ),
        (
            '[[workspace]]\npath = "/a"\npreset = "claude-code"\nuser = true',
            "4: workspace.0.user: projects cannot be user-wide: name one folder of notes",
        ),
        ('[[workspace]]\npath = "/a"\nuser = "yes"', "3: workspace.0.user: expected true or"),
        ("[[kind]]\n", "1: kind: no such section; did you mean `kinds`?"),
        ("[[kinds]]\n", "1: kinds: write `[kinds.NAME]` once for each kind of memory"),
        (
            "[kinds]\na = 1",
            "2: kinds.a: this is a table: write `[kinds.a]` with its keys below",
        ),
        ("[kinds.'a b']", "1: kinds.a b: not one word of letters, digits, `_` and `-`"),
        (
            KIND.format(name="a", note="../a.md", importance=0.5),
            "2: kinds.a.append_to: '../a.md': it holds an empty part, `.` or `..`",
        ),
        (KIND.format(name="a", note="a.txt", importance=0.5), "2: kinds.a.append_to: 'a.txt': it"),
        (KIND.format(name="a", note="a.md", importance=1.5), "3: kinds.a.importance: expected a"),
        (
            "[kinds.a]\n[kinds.A]\n",
            "2: kinds.A: 'a' is the name of another kind above",
        ),
        ("[history]\nmax_revisions = 0", "2: history.max_revisions: expected a whole number >= 1"),
        ("[sync]\ndebounce_ms = 1\ndebounce_ms = 2\n", "3: not TOML: Cannot overwrite a value"),
        ("[sync", "1: not TOML: Expected ']' at the end of a table declaration (at end of"),
    ):
        assert refusal(config_path, text).startswith(message), text


def test_all_errors_are_reported_at_once(config_path: Path) -> None:
    text = "[sync]\ndebouce_ms = 1\n[log]\nlevel = 1\n"
    wrongs = refusal(config_path, text, {"MEMSYNCD_SEARCH_MAX_RESULTS": "many"}).splitlines()
    assert [wrong.partition(":")[0] for wrong in wrongs] == [
        "2",
        "MEMSYNCD_SEARCH_MAX_RESULTS='many'",
        "4",
    ]


def test_an_invalid_variable_is_named_and_not_the_file(config_path: Path) -> None:
    message = refusal(config_path, "", {"MEMSYNCD_SYNC_MAX_WAIT_MS": "1"})
    assert message == (
        "MEMSYNCD_SYNC_MAX_WAIT_MS: sync.max_wait_ms: debounce_ms (100) is more than"
        " max_wait_ms (1)"
    )


def test_home_stands_for_the_home_folder(config_path: Path) -> None:
    config_path.write_text(
        '[socket]\npath = "~/s.sock"\n[[workspace]]\npath = "~"\nallow_links_to = ["~/notes/"]\n'
    )
    config = load_config(str(config_path), {"HOME": "/home/ann"}).config
    assert config.socket.path == "/home/ann/s.sock"
    assert (config.workspace[0].path, config.workspace[0].allow_links_to) == (
        "/home/ann",
        ("/home/ann/notes",),
    )


def test_a_file_that_is_not_utf8_is_refused_with_its_line(config_path: Path) -> None:
    config_path.write_bytes(b"[sync]\n# \xff\n")
    with pytest.raises(BadConfig, match=":2: not UTF-8"):
        load_config(str(config_path), {})


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(config_path: Path) -> None:
    config_path.write_bytes(b"\xef\xbb\xbf[sync]\r\ndebounce_ms = 3\r\n")
    loaded = load_config(str(config_path), {})
    assert loaded.config.sync.debounce_ms == 3
    assert loaded.origins["sync.debounce_ms"].endswith(":2")


def test_a_fifo_does_not_block_the_start(config_path: Path) -> None:
    os.mkfifo(config_path)
    with pytest.raises(BadConfig, match="not a regular file"):
        load_config(str(config_path), {})


def test_a_folder_or_a_huge_file_is_refused(config_path: Path, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"directory|regular"):
        load_config(str(tmp_path), {})
    config_path.write_text("#" * 300_000)
    with pytest.raises(BadConfig, match="over 262144 bytes"):
        load_config(str(config_path), {})


def test_a_world_writable_file_is_refused(config_path: Path) -> None:
    config_path.write_text("")
    config_path.chmod(0o666)
    with pytest.raises(BadConfig, match="any user may write"):
        load_config(str(config_path), {})


def test_dev_null_means_no_file() -> None:
    assert load_config(os.devnull, {"MEMSYNCD_CONFIG": os.devnull}).config == Config()


def test_changed_keys_are_named() -> None:
    old = Config()
    kinds = {"a": KindDefaults("a.md", 0.5)}
    new = Config(
        sync=SyncConfig(debounce_ms=1), kinds=kinds, workspace=(WorkspaceConfig(path="/a"),)
    )
    assert find_changed_keys(old, old) == ()
    assert find_changed_keys(old, new) == ("sync.debounce_ms", "kinds", "workspace")


# --- lines of keys ---

TEXT = '''
top = 1
[a]   # a comment
"quoted key" = """
[not] = 1
x = 2
"""
list = [
  1, # ]
  { in = 2 },
]
dotted.one = 1
inline = {two = 2, three = [{four = 4}]}

[[many]]
x = 1
[[many]]
 y = "]["
[many.below]
z = 1979-05-27
'''


def test_the_line_of_a_key_is_found_however_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    for key, line in (
        ("top", 2),
        ("a", 3),
        ("a.quoted key", 4),
        ("a.list", 8),
        ("a.list.0.in", 8),
        ("a.dotted.one", 12),
        ("a.inline.two", 13),
        ("a.inline.three.0.four", 13),
        ("many.0", 15),
        ("many.0.x", 16),
        ("many.1", 17),
        ("many.1.y", 18),
        ("many.1.absent", 17),
        ("nowhere", 1),
    ):
        assert read_config_file(str(path), is_required=True).find_line(key) == line, key


PIECES = """
[sync] [[workspace]] [workspace] [log.x] debounce_ms= path= include= level=
" \'\'\' [ ] { } , = . # \\
1 nan true 1979-05-27 ~ /a x
""".split()
texts = st.lists(st.sampled_from([*PIECES, "\n", " "])).map("".join).map(str.encode)


@given(st.binary() | texts)
@example(b"a = " + b"[" * 5000)
@example(b"a = " + b"9" * 5000)
@example(b"[sync]\ndebounce_ms = " + b"9" * 4000)
@example(b"[[workspace]]\npath = 1979-05-27\ninclude = [1, {}]\n")
@example(b"workspace = [{}, 1]\n")
def test_any_bytes_are_a_configuration_or_are_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.toml")
        path.write_bytes(data)
        try:
            what = load_config(str(path), {}).path
        except BadConfig as refused:
            what = refused.message
        assert what.startswith(str(path))


def test_a_long_list_is_parsed_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    lines = "".join(f'  "docs/{number}.md",\n' for number in range(8000))
    path.write_text(f'[[workspace]]\npath = "/a"\ninclude = [\n{lines}]\nname = "last"\n')
    assert path.stat().st_size < FILE_LIMIT_BYTES
    assert load_config(str(path), {}).origins["workspace.0.name"].endswith(":8005")


# --- rendering ---

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
folders = words.map(lambda text: "/" + text.strip("/") + "x")
globs = st.text(st.characters(codec="utf-8", exclude_characters="\0/{")).map(
    lambda text: f"docs/n{text}.md"
)
workspaces = st.builds(
    WorkspaceConfig,
    path=folders,
    name=st.just(""),
    include=st.lists(globs).map(tuple),
    exclude=st.lists(globs).map(tuple),
    allow_links_to=st.lists(folders).map(tuple),
)
kind_names = st.from_regex(r"\w[\w-]{0,5}", fullmatch=True).filter(
    lambda name: name == name.lower() and is_kind(name)
)
kinds = st.builds(
    KindDefaults, append_to=globs, importance=st.floats(0, 1), half_life=st.floats(1, 99)
)
configs = st.builds(
    Config,
    sync=st.builds(
        SyncConfig,
        enabled=st.booleans(),
        debounce_ms=st.integers(0, 1000),
        reconcile_s=st.floats(0.05, 86_400),
    ),
    search=st.builds(SearchConfig, min_score=st.floats(0, 1)),
    history=st.builds(HistoryConfig, enabled=st.booleans(), max_age_days=st.floats(1, 1000)),
    socket=st.builds(SocketConfig, path=folders),
    kinds=st.dictionaries(kind_names, kinds, max_size=3).map(
        lambda given: {**DEFAULT_KINDS, **given}
    ),
    workspace=st.lists(workspaces, max_size=3, unique_by=lambda workspace: workspace.path).map(
        tuple
    ),
)


def wrap(config: Config) -> Loaded:
    return Loaded(path="config.toml", is_file_found=True, config=config, origins={}, warnings=())


@given(configs)
def test_the_rendered_configuration_loads_to_the_same(config: Config) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.toml")
        path.write_bytes(render_config(wrap(config)).encode())
        assert load_config(str(path), {}).config == config


def test_each_line_has_the_origin_of_its_value(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[[workspace]]\npath = "/a"\n')
    lines = render_config(load_config(str(path), {"MEMSYNCD_LOG_LEVEL": "error"})).splitlines()
    assert 'level = "error"                           # env:MEMSYNCD_LOG_LEVEL' in lines
    assert f'path = "/a"                               # {path}:2' in lines
    assert 'format = "auto"                           # default' in lines


def test_every_key_is_shown() -> None:
    kinds = {"decision": KindDefaults("a.md", 0.5)}
    step = StepConfig(name="review", kind="insight")
    source = SourceConfig(path="docs/*.md")
    config = Config(
        kinds=kinds, step=(step,), source=(source,), workspace=(WorkspaceConfig(path="/a"),)
    )
    text = render_config(wrap(config))
    for section in msgspec.structs.fields(Config):
        assert f"[{section.name}{'.decision' if section.name == 'kinds' else ''}]" in text


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("", None),
        ("127.0.0.1:7997", ("127.0.0.1", 7997)),
        ("127.9.9.9:1", ("127.9.9.9", 1)),
        ("localhost:0", ("127.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_a_port_is_one_of_the_loopback(
    config_path: Path, listen: str, address: tuple[str, int] | None
) -> None:
    config_path.write_text(f'[http]\nlisten = "{listen}"\n')
    assert load_config(str(config_path), {}).config.http.address == address


@pytest.mark.parametrize(
    "listen",
    [
        "7997", ":7997", "0.0.0.0:7997", "192.168.0.1:7997", "[::]:7997", "127.0.0.1", "::1:7997",
        "127.0.0.1:65536", "127.0.0.300:1", "localhost.example:1", "127.0.0.1:7997 ", "127.1:1",
    ],
)  # fmt: skip
def test_a_port_that_others_could_reach_is_refused(config_path: Path, listen: str) -> None:
    for text, env in (
        (f'[http]\nlisten = "{listen}"\n', {}),
        ("", {"MEMSYNCD_HTTP_LISTEN": f"x{listen}"}),
    ):
        config_path.write_text(text)
        with pytest.raises(BadConfig) as refusal:
            load_config(str(config_path), env)
        assert "http.listen" in refusal.value.message or "HTTP_LISTEN" in refusal.value.message


ENDPOINT = '[semantic]\nembedder = "endpoint"\nmodel = "m"\n'
FASTEMBED = '[semantic]\nembedder = "fastembed"\nmodel = "e5"\n'


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:11434/v1/embeddings",
        "http://localhost:1234/v1/embeddings",
        "http://[::1]:80/v1/embeddings",
        "https://127.8.9.1/x",
    ],
)
def test_an_endpoint_on_this_machine_is_accepted(config_path: Path, url: str) -> None:
    config_path.write_text(f'{ENDPOINT}url = "{url}"\n')
    assert load_config(str(config_path), {}).config.semantic.url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/v1/embeddings",
        "http://192.168.1.2:11434/v1/embeddings",
        "http://localhost.example.com/v1",
        "http://127.0.0.1.example.com/v1",
        "http://1270.0.0.1/v1",
        "http://0.0.0.0/v1",
        "http://[2001:db8::1]/v1",
        "http://[::ffff:1.2.3.4]/v1",
    ],
)
def test_an_endpoint_on_another_machine_must_be_allowed(config_path: Path, url: str) -> None:
    text = f'{ENDPOINT}url = "{url}"\n'
    assert "another machine, which would receive the text" in refusal(config_path, text)
    config_path.write_text(f"{text}allow_remote = true\n")
    assert load_config(str(config_path), {}).config.semantic.allow_remote


def test_an_embedder_needs_what_names_its_model(config_path: Path) -> None:
    for text in (
        f'{ENDPOINT}url = ""\n',
        f'{ENDPOINT}url = "127.0.0.1:80"\n',
        f'{ENDPOINT}url = "http://user@127.0.0.1/"\n',
        f'{ENDPOINT}url = "http://127.0.0.1@example.com/"\n',
        f'{ENDPOINT}url = "http://127.0.0.1:99999/"\n',
        f'{ENDPOINT}url = "ftp://127.0.0.1/"\n',
        '[semantic]\nembedder = "fastembed"\n',
        f'{FASTEMBED}model_folder = "models/e5"\n',
        '[semantic]\nmodel_folder = "/models/e5"\n',
        '[semantic]\nembedder = "model2vec"\n',
    ):
        assert ": semantic." in refusal(config_path, text), text


def test_the_folder_of_a_model_may_be_in_the_home_folder(config_path: Path) -> None:
    config_path.write_text(f'{FASTEMBED}model_folder = "~/models/e5/"\n')
    loaded = load_config(str(config_path), {"HOME": "/home/ada"})
    assert loaded.config.semantic.model_folder == "/home/ada/models/e5"


def test_the_embedder_of_earlier_versions_is_refused_with_its_replacement(
    config_path: Path,
) -> None:
    text = '[semantic]\nembedder = "folder"\nmodel = "/models/e5"\n'
    assert "`model_folder`" in refusal(config_path, text)
    variable = {"MEMSYNCD_SEMANTIC_EMBEDDER": "folder"}
    assert 'write embedder = "fastembed"' in refusal(config_path, "", variable)
