"""An address of the panel is valid once; the port is remembered for a restart."""

from __future__ import annotations

from pathlib import Path

from memsyncd.server import panel


def test_a_token_is_valid_once_and_not_for_long() -> None:
    now_s = [100.0]
    tokens = panel.OneTimeTokens(lambda: now_s[0])
    first, second = tokens.make(), tokens.make()
    assert tokens.use(first)
    assert not tokens.use(first)
    assert not tokens.use("")
    now_s[0] += panel.TOKEN_AGE_S
    assert not tokens.use(second)


def test_the_port_is_remembered_for_a_week(tmp_path: Path) -> None:
    path = tmp_path / "panel-port"
    now_s = path.parent.stat().st_mtime
    assert panel.find_port(str(path), now_s) == 0
    panel.remember_port(str(path), 4711)
    assert panel.find_port(str(path), path.stat().st_mtime + 1) == 4711
    assert panel.find_port(str(path), path.stat().st_mtime + panel.PORT_AGE_S) == 0
    path.write_text("x")
    assert panel.find_port(str(path), path.stat().st_mtime + 1) == 0
