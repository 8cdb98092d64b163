"""Hint with the command that installs a missing extra, for a wheel, a checkout and pipx alike.

The name `flashferry` is on no package index. Anyone who registered it there could run code on staging hosts, so no hint
lets pip search it by name: it names the file or folder of this installation (PEP 610, `direct_url.json`).
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit


def extra_hint(extra: str) -> str:
    """Return what to do about a missing extra, as the hint of an error.

    Args:
        extra: Its name in `pyproject.toml`.
    """
    source, is_editable = _source()
    if source is None:
        return f"Install the wheel that flashferry came from once more, with its extra: '{_install()} WHEEL[{extra}]'"
    words = f"--editable {shlex.quote(f'{source}[{extra}]')}" if is_editable else shlex.quote(f"{source}[{extra}]")
    return f"Install the extra '{extra}': {_install()} {words}"


def _install() -> str:
    """Return the command that installs into this environment; one made by pipx is recognised by pipx's file in it."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return "pipx install --force"
    return f"{shlex.quote(sys.executable)} -m pip install"


def _source() -> tuple[Path | None, bool]:
    """Return the wheel or folder of this installation, if it still exists, and whether the installation is editable."""
    from importlib.metadata import PackageNotFoundError, distribution  # start time

    try:
        found = json.loads(distribution("flashferry").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None, False
    url = urlsplit(str(found.get("url", "")))
    path = Path(unquote(url.path))
    if url.scheme != "file" or not path.exists():
        return None, False
    return path, bool(found.get("dir_info", {}).get("editable"))
