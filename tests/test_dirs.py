from __future__ import annotations

import pytest

from memsyncd.dirs import VARIABLES, Dirs, find_dirs, find_socket_paths
from memsyncd.errors import BadConfig

HOME = "/home/ada"


def find(env: dict[str, str], platform: str = "linux") -> Dirs:
    return find_dirs(env, HOME, platform)


def show(dirs: Dirs) -> dict[str, object]:
    return {name: getattr(dirs, name) for name in Dirs.__slots__}


def test_without_any_variable_everything_lies_in_the_xdg_defaults() -> None:
    assert show(find({})) == {
        "config_file": "/home/ada/.config/memsyncd/config.toml",
        "state_dir": "/home/ada/.local/state/memsyncd",
        "cache_dir": "/home/ada/.cache/memsyncd",
        "user_memory": "/home/ada/.local/share/memsyncd/user",
        "socket_path": "/home/ada/.local/state/memsyncd/run/memsyncd.sock",
        "lock_paths": (
            "/home/ada/.local/state/memsyncd/daemon.lock",
            "/home/ada/.cache/memsyncd/daemon.lock",
        ),
        "log_file": "/home/ada/.local/state/memsyncd/daemon.log",
        "http_token": "/home/ada/.local/state/memsyncd/http-token",
        "panel_port": "/home/ada/.local/state/memsyncd/panel-port",
    }


def test_xdg_variables_are_obeyed() -> None:
    env = {
        "XDG_CONFIG_HOME": "/c",
        "XDG_STATE_HOME": "/s/",
        "XDG_CACHE_HOME": "/k",
        "XDG_RUNTIME_DIR": "/run/user/7",
    }
    dirs = find(env)
    assert dirs.config_file == "/c/memsyncd/config.toml"
    assert dirs.state_dir == "/s/memsyncd"
    assert dirs.cache_dir == "/k/memsyncd"
    assert dirs.socket_path == "/run/user/7/memsyncd/memsyncd.sock"
    assert dirs.lock_paths == ("/s/memsyncd/daemon.lock", "/k/memsyncd/daemon.lock")


@pytest.mark.parametrize(
    "variable", ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]
)
@pytest.mark.parametrize("value", ["", "relative", "./here", "~/x"])
def test_an_empty_or_relative_xdg_variable_counts_as_unset(variable: str, value: str) -> None:
    assert show(find({variable: value})) == show(find({}))


def test_macos_keeps_state_and_index_under_library() -> None:
    dirs = find({}, "darwin")
    assert dirs.config_file == "/home/ada/.config/memsyncd/config.toml"
    assert dirs.state_dir == "/home/ada/Library/Application Support/memsyncd"
    assert dirs.cache_dir == "/home/ada/Library/Caches/memsyncd"
    assert dirs.socket_path == "/home/ada/Library/Application Support/memsyncd/run/memsyncd.sock"


def test_macos_obeys_xdg_variables_that_are_set() -> None:
    assert find({"XDG_CACHE_HOME": "/k"}, "darwin").cache_dir == "/k/memsyncd"


def test_a_named_socket_takes_precedence() -> None:
    dirs = find(
        {
            "MEMSYNCD_SOCKET": "/x/mine.sock",
            "MEMSYNCD_SOCKET_PATH": "/y/no.sock",
            "XDG_RUNTIME_DIR": "/run/user/7",
        }
    )
    assert dirs.socket_path == "/x/mine.sock"


def test_the_variable_of_the_configuration_key_names_the_socket_too() -> None:
    assert find({"MEMSYNCD_SOCKET_PATH": "/y/twin.sock"}).socket_path == "/y/twin.sock"


def test_a_tilde_is_replaced_by_the_home_folder() -> None:
    assert find({"MEMSYNCD_SOCKET": "~/m.sock"}).socket_path == "/home/ada/m.sock"
    assert find({"MEMSYNCD_CONFIG": "~/m.toml"}).config_file == "/home/ada/m.toml"


@pytest.mark.parametrize("variable", ["MEMSYNCD_SOCKET", "MEMSYNCD_SOCKET_PATH", "MEMSYNCD_CONFIG"])
def test_a_relative_path_in_our_own_variables_is_refused_by_name(variable: str) -> None:
    with pytest.raises(BadConfig, match=variable) as caught:
        find({variable: "run/m.sock"})
    assert variable in caught.value.hint


@pytest.mark.parametrize("home", ["", "ada", "~"])
def test_a_home_that_is_no_absolute_path_is_refused(home: str) -> None:
    with pytest.raises(BadConfig, match="home"):
        find_dirs({}, home, "linux")


def test_a_client_without_a_runtime_folder_tries_the_socket_of_a_daemon_with_one() -> None:
    assert find_socket_paths(find({}), {}, 7) == (
        "/home/ada/.local/state/memsyncd/run/memsyncd.sock",
        "/run/user/7/memsyncd/memsyncd.sock",
    )


def test_a_client_with_a_runtime_folder_tries_the_socket_of_a_daemon_without_one() -> None:
    env = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert find_socket_paths(find(env), env, 7) == (
        "/run/user/7/memsyncd/memsyncd.sock",
        "/home/ada/.local/state/memsyncd/run/memsyncd.sock",
    )


def test_a_named_socket_is_the_only_one_tried() -> None:
    env = {"MEMSYNCD_SOCKET": "/x/mine.sock"}
    assert find_socket_paths(find(env), env, 7) == ("/x/mine.sock",)


@pytest.mark.parametrize("variable", ["MEMSYNCD_SOCKET", "XDG_RUNTIME_DIR"])
def test_the_locks_do_not_depend_on_the_socket(variable: str) -> None:
    assert find({variable: "/x/mine"}).lock_paths == find({}).lock_paths


def test_with_socket_changes_the_socket_only() -> None:
    before, after = show(find({})), show(find({}).with_socket("/x/mine.sock"))
    assert after == before | {"socket_path": "/x/mine.sock"}


def test_each_variable_that_is_read_can_be_handed_on() -> None:
    read: set[str] = set()

    class Recorder(dict[str, str]):
        def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
            read.add(name)
            return default

    for platform in ("linux", "darwin"):
        find(Recorder(), platform)
    assert read == set(VARIABLES)
