"""What a source says of the depots that come to it: who fetched, and who was not let in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.depot.status import find_depot
from flashferry.depot.sync.filling import SourceRefused
from flashferry.depot.sync.source import Login, Source
from tests.component.depot.conftest import until
from tests.patience import PATIENCE_S

WORD, GUESS = "long-enough-1", "a-wrong-word-7"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Run one; yield its URL, and what it has said, as it comes."""
    mirrors = tmp_path / "mirrors.toml"
    mirrors.touch(mode=0o600)
    mirrors.write_text(f'[sites.ams]\nuser = "branch"\npassword = "{WORD}"\n')
    (tmp_path / "images").mkdir()
    words = ["depot", "--transports", "http", "--listen", "127.0.0.1", "--http-port", "0", "--json"]
    words += ["--catalogue", str(tmp_path / "images"), "--mirrors", str(mirrors)]
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-P", "-m", "flashferry", *words],
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"FLASHFERRY_STATE_DIR": str(tmp_path / "state")},
            )
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["ports"]["http"]
        said: list[dict[str, str]] = []
        reading = threading.Thread(target=_take_all, args=(process, said), daemon=True)
        reading.start()
        yield f"http://127.0.0.1:{port}", said
        process.kill()
        reading.join(PATIENCE_S)


def _take_all(process: subprocess.Popen[str], said: list[dict[str, str]]) -> None:
    assert process.stdout is not None
    while line := process.stdout.readline():
        said.append(json.loads(line))


def asked(url: str, user: str, word: str) -> bytes:
    return Source(url=url, login=Login(username=user, password=word)).fetch_small("catalogue.json", 10_000)


def texts(said: list[dict[str, str]], event: str) -> list[str]:
    return [one["text"] for one in said if one["event"] == event]


def test_who_fetches_and_who_is_refused_is_told(source: tuple[str, list[dict[str, str]]], tmp_path: Path) -> None:
    """By the site's name; a login that is tried again and again is one line, and no password is in any."""
    url, said = source
    until(lambda: any("offers" in text for text in texts(said, "notice")))
    view = find_depot(tmp_path / "state").view
    assert view is not None
    assert view.catalogue == str(tmp_path / "images")
    asked(url, "branch", WORD)
    for user in ("branch", "branch", "nobody"):
        with pytest.raises(SourceRefused, match=f"did not take user {user}'s password"):
            asked(url, user, GUESS)
    until(lambda: bool(texts(said, "fetched")) and len(texts(said, "refused")) > 1)
    assert texts(said, "refused") == [
        "login refused for 127.0.0.1: site ams, wrong password",
        "login refused for 127.0.0.1: user n***, unknown user",
    ]
    assert texts(said, "fetched")[0].startswith("site ams (127.0.0.1) fetched catalogue.json from byte 0: ")
    assert GUESS not in json.dumps(said)
    assert WORD not in json.dumps(said)
