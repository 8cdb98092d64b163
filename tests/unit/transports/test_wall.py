"""No room above the transports names a protocol, so that another one is added below them alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry import transports

ROOT = Path(transports.__file__).parents[2]
ROOMS = (
    "tasks",
    *(f"flashferry/{room}" for room in ("model", "store", "planning", "run", "monitor", "reports", "api", "cli")),
)
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]

_PROTOCOL = re.compile(r"(?<![a-z])s?ftp|ftpserver|ftpd", re.IGNORECASE)

KEPT_NAMES = {"ftp_port"}
"""The name of a stored option."""

KEPT_TEXTS: dict[str, tuple[str, ...]] = {
    "flashferry/cli/depot_probe.py": ("Only this way: ",),
    "flashferry/cli/options/server.py": ("ftp_port", "What to serve, separated by commas: "),
    "flashferry/cli/options/shared.py": ("FTP port (default: 21"),
    "flashferry/cli/serve.py": ("Password of the FTP user ",),
    "flashferry/model/policy.py": ("By what devices fetch: ", " leave ftp out"),
    "flashferry/monitor/metrics.py": ("by our FTP server.", "ftp"),
    "flashferry/run/host_check.py": ("or stop the other FTP server", "FTP port "),
}
"""Sentences, options and a metric's label that users see, by file: no protocol is
spoken with them."""


def identifiers(tree: ast.AST) -> Iterator[str]:
    """Return every name that a module defines, imports or uses."""
    for node in ast.walk(tree):
        for attribute in ("id", "attr", "name", "arg", "asname", "module"):
            if isinstance(found := getattr(node, attribute, None), str):
                yield found


def texts(tree: ast.AST) -> Iterator[str]:
    """Return every text of a module that is not a docstring."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def is_kept(text: str, kept: str) -> bool:
    """Tell whether a text is an exception: a word by itself, a sentence by any part of it."""
    return kept in text if " " in kept else kept == text


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_protocol_is_named(path):
    """Neither by an identifier or an import, nor in a text but those that users see."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kept = KEPT_TEXTS.get(str(path.relative_to(ROOT)), ())
    found = [name for name in identifiers(tree) if _PROTOCOL.search(name) and name not in KEPT_NAMES]
    found += [text for text in texts(tree) if _PROTOCOL.search(text) and not any(is_kept(text, one) for one in kept)]
    assert found == []


def test_every_exception_is_needed():
    """A text that is gone is no exception any more."""
    for name, kept in KEPT_TEXTS.items():
        said = "\n".join(texts(ast.parse((ROOT / name).read_text(encoding="utf-8"))))
        assert [one for one in kept if one not in said] == [], name


@pytest.mark.parametrize(
    "source",
    ["import ftpserver", "from ftpserver.session import x", "ftp_url = 1", 'line = f"ip ftp {name}"', "Sftp()"],
)
def test_the_wall_stands(source):
    """The look finds what it is there for."""
    tree = ast.parse(source)
    assert [one for one in (*identifiers(tree), *texts(tree)) if _PROTOCOL.search(one)]
