"""The answers to bad input: a sentence each, and what to do. No device is reached, nothing is changed."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

WORDS = Path(__file__).with_name("refusals.txt")
"""The command lines, one a line."""

_FILES = {
    "inv/hosts.yaml": "r1: {hostname: 127.0.0.1, port: 9, platform: ios}\n",
    "empty/hosts.yaml": "",
    "bad-yaml/hosts.yaml": "r1: {hostname: [\n",
    "list/hosts.yaml": "- r1\n",
    "bad-port/hosts.yaml": "r1: {hostname: 127.0.0.1, port: many, platform: ios}\n",
    "platform/hosts.yaml": "r1: {hostname: 127.0.0.1, platform: junos}\n",
    "key/hosts.yaml": "r1: {hostname: 127.0.0.1, platform: ios, data: {link_rat_bps: 5}}\n",
    "group/hosts.yaml": "r1: {hostname: 127.0.0.1, platform: ios, groups: [absent]}\n",
    "image.bin": "x" * 64,
    "empty.bin": "",
    "with blank.bin": "x",
    "rules.yaml": "rules: [{platfrm: ios, image: image.bin}]\n",
    "bad-rules.yaml": "rules: {\n",
    "plan.json": "{}",
    "text.json": "hello",
    "columns.csv": "foo;bar\n1;2\n",
    "empty.csv": "",
    "address.csv": "name,address\nr1,not an address\n",
    "agent.toml": "x = 1\n",
    "service.toml": "[service\n",
    "nightly.yaml": "x: 1\n",
    "key.pem": "no key\n",
    "cert.pem": "no certificate\n",
    "file": "x",
    "nothing/below": "",
}


def refusals(folder: Path) -> dict[str, str]:
    """Return what each command line is answered, in one file."""
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "binary.json").write_bytes(b"\xff\xfe\x00x")
    (folder / "nothing" / "below").unlink()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLASHFERRY_", "COLUMNS"))}
    environment = {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder), "COLUMNS": "160"}
    environment |= {"PYTHONPATH": str(WORDS.parents[2]), "FLASHFERRY_USERNAME": "u", "FLASHFERRY_PASSWORD": "p"}
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        env=kept | environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=10 * PATIENCE_S,
    )
    text = done.stdout.replace(str(folder), "FOLDER")
    return {"refusals.txt": re.sub(r"it is \S+ now", "it is NOW now", text)}


def _answers() -> str:
    """Run each command line in this process, and return what it printed."""
    from flashferry.cli import program
    from flashferry.cli.terminal.output import remember, remember_service

    found = []
    for line in WORDS.read_text().splitlines():
        arguments = shlex.split(line)
        sys.argv = ["flashferry", *arguments]
        remember(None)
        remember_service("")
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                program.run(arguments)
            except SystemExit as left:
                code = int(left.code or 0)
        printed = [text.rstrip() for text in (out.getvalue() + err.getvalue()).splitlines()]
        found.append("\n".join([f"$ flashferry {line}", *printed, f"(exit code {code})", ""]))
    return "\n".join(found)


if __name__ == "__main__":
    sys.stdout.write(_answers())
