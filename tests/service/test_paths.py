"""The service of a program, a configuration and notes in unusual paths, or upgraded in place."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.cli.service_files import find_program
from memsyncd.errors import BadRequest
from tests.service.conftest import REPOSITORY

if TYPE_CHECKING:
    from tests.service.conftest import Manager

UNUSUAL = ('a b%h;# "it\'s" \\n $HOME$$ ${X} ünï 日本 & <b>', "-@!+=x ")


def make_program(folder: Path) -> str:
    """Create an interpreter in its own environment, which finds our packages."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)], check=True
    )
    (packages,) = folder.glob("lib/python3*/site-packages")
    # An editable install, or an environment like this one, has packages in other folders too.
    folders = [path for path in sys.path if Path(path).is_dir()]
    (packages / "borrowed.pth").write_text("\n".join(folders) + "\n", encoding="utf-8")
    return str(folder / "bin" / "python")


@pytest.mark.parametrize("name", UNUSUAL)
def test_program_configuration_and_notes_may_have_any_path(user: Manager, name: str) -> None:
    unusual = user.folder / name
    (unusual / "notes" / ".memories").mkdir(parents=True)
    (unusual / "notes" / "MEMORY.md").write_text("# larch\n")
    (unusual / "c.toml").write_text("[log]\nlevel = 'debug'\n")
    python, env = make_program(unusual / "venv"), {"MEMSYNCD_CONFIG": str(unusual / "c.toml")}
    done = user.do(python, "-m", "memsyncd", "service", "install", **env)
    assert done.returncode == 0, done.stderr
    pid = user.show("MainPID")
    assert user.do("cat", f"/proc/{pid}/cmdline").stdout.split("\0")[0] == python
    assert user.do(python, "-m", "memsyncd", "add", str(unusual / "notes"), **env).returncode == 0
    search = user.do(
        python, "-m", "memsyncd", "search", "larch", "-w", str(unusual / "notes"), "--wait", **env
    )
    assert (search.returncode, search.stdout.splitlines()[0].partition(":")[0]) == (
        0,
        str(unusual / "notes" / "MEMORY.md"),
    )
    assert json.loads(user.memsyncd("status", "--json").stdout)["config"] == str(unusual / "c.toml")
    again = user.do(python, "-m", "memsyncd", "service", "install", **env)
    assert again.stdout.startswith("kept ")
    report = json.loads(user.do(python, "-m", "memsyncd", "doctor", "--json", **env).stdout)
    assert [
        finding for finding in report["findings"] if finding["level"] in ("warning", "error")
    ] == []
    assert user.show("MainPID") == pid
    assert user.do(python, "-m", "memsyncd", "service", "uninstall", **env).returncode == 0
    shutil.rmtree(unusual)


def test_a_client_starts_the_service_at_a_socket_with_any_path(user: Manager) -> None:
    unusual = user.folder / "".join(UNUSUAL)
    unusual.mkdir(mode=0o700)
    env = {"MEMSYNCD_SOCKET": str(unusual / "m.sock")}
    assert user.memsyncd("service", "install", "--on-demand", **env).returncode == 0
    assert user.show("ActiveState") == "inactive"
    answer = json.loads(user.memsyncd("status", "--json", **env).stdout)
    assert (answer["socket"], answer["pid"]) == (env["MEMSYNCD_SOCKET"], int(user.show("MainPID")))
    assert user.memsyncd("service", "uninstall", **env).returncode == 0
    shutil.rmtree(unusual)


@pytest.mark.parametrize("name", ["a\nExecStartPre=/bin/false", "a\rb", "a\tb", "a\x7f", "a\udcff"])
def test_a_path_that_no_unit_can_contain_is_refused_by_name(name: str) -> None:
    with pytest.raises(BadRequest, match="a service's file cannot contain"):
        find_program({"MEMSYNCD_CONFIG": f"/{name}"})


def test_without_a_home_the_error_is_exact_and_no_file_is_written(user: Manager) -> None:
    for action in ("install", "status", "uninstall"):
        done = user.memsyncd("service", action, HOME="elsewhere")
        assert done.returncode == 78, done.stderr
        assert "set HOME to your home folder" in done.stderr
    assert not (user.folder / "elsewhere").exists()


def test_a_program_upgraded_in_place_runs_after_installing_again(
    user: Manager,
) -> None:
    own = user.folder / "own"
    shutil.copytree(
        REPOSITORY / "memsyncd", own / "memsyncd", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(REPOSITORY / "systemd", own / "systemd")
    env = {"PYTHONPATH": str(own)}
    assert user.memsyncd("service", "install", **env).returncode == 0
    pid = user.show("MainPID")
    module = own / "memsyncd" / "__init__.py"
    version = json.loads(user.memsyncd("status", "--json", **env).stdout)["version"]
    module.write_text(module.read_text().replace(f'"{version}"', '"9.9.9"'))
    report = user.memsyncd("doctor", **env)
    assert report.returncode == 1, report.stdout
    assert f"the daemon is version {version}, this program 9.9.9" in report.stdout
    done = user.memsyncd("service", "install", **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("kept ")
    assert user.show("MainPID") not in (pid, "0")
    assert user.memsyncd("doctor", **env).returncode == 0
    shutil.rmtree(own)
