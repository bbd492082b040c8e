from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.config import (
    Config,
    HistoryConfig,
    KindConfig,
    Loaded,
    SearchConfig,
    SocketConfig,
    SyncConfig,
    WorkspaceConfig,
    load_config,
    render_config,
)

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
folders = words.map(lambda text: "/" + text.strip("/") + "x")
globs = st.text(st.characters(codec="utf-8", exclude_characters="\0/{")).map(lambda text: f"docs/n{text}.md")
workspaces = st.builds(
    WorkspaceConfig,
    path=folders,
    name=st.just(""),
    include=st.lists(globs).map(tuple),
    exclude=st.lists(globs).map(tuple),
    allow_links_to=st.lists(folders).map(tuple),
)
kinds = st.builds(KindConfig, name=words.map(str.lower), note=globs, importance=st.floats(0, 1))
configs = st.builds(
    Config,
    sync=st.builds(SyncConfig, enabled=st.booleans(), debounce_ms=st.integers(0, 1000), reconcile_s=st.floats(0.05, 86_400)),
    search=st.builds(SearchConfig, min_score=st.floats(0, 1)),
    history=st.builds(HistoryConfig, enabled=st.booleans(), max_age_days=st.floats(1, 1000)),
    socket=st.builds(SocketConfig, path=folders),
    kind=st.lists(kinds, max_size=3, unique_by=lambda kind: kind.name).map(tuple),
    workspace=st.lists(workspaces, max_size=3, unique_by=lambda workspace: workspace.path).map(tuple),
)


def wrap(config: Config) -> Loaded:
    return Loaded(path="config.toml", is_file_found=True, config=config, origins={}, warnings=())


@given(configs)
def test_what_is_rendered_loads_to_the_same(config: Config) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.toml")
        path.write_bytes(render_config(wrap(config)).encode())
        assert load_config(str(path), {}).config == config


def test_each_line_says_where_its_value_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[[workspace]]\npath = "/a"\n')
    shown = render_config(load_config(str(path), {"MEMSYNCD_LOG_LEVEL": "error"})).splitlines()
    assert 'level = "error"                           # env:MEMSYNCD_LOG_LEVEL' in shown
    assert f'path = "/a"                               # {path}:2' in shown
    assert 'format = "auto"                           # default' in shown


def test_every_key_is_shown() -> None:
    kind = KindConfig(name="decision", note="a.md", importance=0.5)
    shown = render_config(wrap(Config(kind=(kind,), workspace=(WorkspaceConfig(path="/a"),))))
    for section in msgspec.structs.fields(Config):
        assert f"[{section.name}]" in shown
