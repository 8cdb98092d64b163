"""What a missing extra's hint says: a command that works here, and never pip with a name that is on no index."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

from flashferry.core.extras import extra_hint


class Distribution:
    def __init__(self, direct_url: object) -> None:
        self._text = None if direct_url is None else json.dumps(direct_url)

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._text


@pytest.fixture
def installed(monkeypatch):
    """Have this installation come from somewhere."""

    def come_from(direct_url: object, prefix: Path = Path("/nowhere")) -> None:
        monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(direct_url))
        monkeypatch.setattr(sys, "prefix", str(prefix))
        monkeypatch.setattr(sys, "executable", "/opt/flashferry/bin/python")

    return come_from


def test_a_wheel_that_is_still_there_is_named(installed, tmp_path):
    """By its path, quoted for a shell."""
    wheel = tmp_path / "of ours" / "flashferry-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert extra_hint("scp") == f"Install the extra 'scp': /opt/flashferry/bin/python -m pip install '{wheel}[scp]'"


def test_a_checkout_is_installed_as_it_was(installed, tmp_path):
    """Editable."""
    installed({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    assert extra_hint("sites").endswith(f"python -m pip install --editable '{tmp_path}[sites]'")


def test_pipx_installs_once_more(installed, tmp_path):
    """Its environments are its own: pip in them would be undone by the next upgrade."""
    wheel = tmp_path / "flashferry-0.1.0-py3-none-any.whl"
    wheel.touch()
    (tmp_path / "pipx_metadata.json").touch()
    installed({"url": wheel.as_uri(), "archive_info": {}}, tmp_path)
    assert extra_hint("service") == f"Install the extra 'service': pipx install --force '{wheel}[service]'"


@pytest.mark.parametrize(
    "direct_url",
    [
        None,
        {},
        {"url": "file:///gone/flashferry-0.1.0-py3-none-any.whl"},
        {"url": "https://ann:word@example.net/"},
    ],
)
def test_where_the_source_is_not_known_the_wheel_is_asked_for(installed, direct_url):
    """Never the bare name, and no address that may hold a password."""
    installed(direct_url)
    assert extra_hint("cml") == (
        "Install the wheel that flashferry came from once more, with its extra: "
        "'/opt/flashferry/bin/python -m pip install WHEEL[cml]'"
    )


def test_no_file_of_ours_has_pip_look_for_our_name():
    """`pip install flashferry...`, or a bare `flashferry[extra]`, would run whatever is registered under that name."""
    import flashferry

    root = Path(flashferry.__file__).parents[1]
    files = [
        path
        for top in ("flashferry", "inventory", "tasks", "templates", "docs")
        for path in (root / top).rglob("*")
        if path.is_file()
    ]
    texts = {path: path.read_bytes() for path in files if path.suffix in {".py", ".md", ".yaml", ".html", ".toml"}}
    texts |= {path: path.read_bytes() for path in root.glob("*.md")}
    assert len(texts) > 300
    # Not `{sys.executable} -m pip`: a wheel's own name goes on, as in `flashferry-0.2.0-py3-none-any.whl[cml]`.
    bare = re.compile(rb"(pip|pipx) install ['\"]?flashferry(?!-)|(?<![\w.*/-])flashferry\[[a-z]+\]")
    assert [str(path) for path, text in texts.items() if bare.search(text)] == []
