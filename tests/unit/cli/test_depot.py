"""`flashferry depot` and its commands: words that contradict each other are refused before anybody is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flashferry import api
from flashferry.cli.depot_images import _print
from flashferry.cli.main import main
from flashferry.cli.terminal.output import verb_given
from flashferry.depot.catalogue.part import now

CASES = {
    ("--socket", "/x", "list"): "--socket: expected after 'depot list', found before it",
    ("sync",): "depot sync: expected one of --from and --rsync",
    ("sync", "--from", "https://h", "--rsync", "u@h:/x"): "depot sync: expected one of --from and --rsync",
    ("sync", "--from", "https://h", "--ssh-port", "22"): "--ssh-port: expected --rsync with it",
    ("sync", "--rsync", "u@h:/x", "--user", "x"): "--rsync: expected neither --user nor --ca with it",
    ("sync", "--from", "http://h", "--ca", "/x"): "expected an https source with it",
    ("sync", "--from", "https://u:word-9@h"): "--from: expected https://HOST[:PORT]",
    ("sync", "--from", "https://h", "--user", "x"): "expected its password in FLASHFERRY_DEPOT_PASSWORD, found nothing",
    ("sync", "--from", "https://h", "--sha512", "0" * 128): "--sha512: expected one image with it, found 0",
    ("sync", "a.bin", "--from", "https://h", "--sha512", "0"): "--sha512: expected 128 hexadecimal digits",
    ("verify", "none.bin"): "expected 'none.bin' in it, found no such image",
    ("--mirrors", "/none.toml"): "--mirrors: expected http or https among the transports served, found ftp",
    ("--mirrors", "/none.toml", "--transports", "http"): "--mirrors /none.toml: expected a file that can be read",
}


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_what_cannot_be_meant_is_refused(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In a sentence, with status 2; no password that was typed into the wrong place is shown."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("FLASHFERRY_DEPOT_PASSWORD", raising=False)
    monkeypatch.setattr(sys, "argv", ["flashferry", "depot", *words])
    with pytest.raises(SystemExit) as left:
        main()
    err = capsys.readouterr().err
    assert left.value.code == 2, err
    assert CASES[words] in err
    assert "word-9" not in err


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (("depot",), "depot"),
        (("depot", "--socket", "/x"), "depot"),
        (("depot", "sync", "a.bin"), "depot-sync"),
        (("depot", "list", "--json"), "depot-list"),
    ],
)
def test_results_name_the_verb(words: tuple[str, ...], verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands behind an option of the daemon is no command."""
    monkeypatch.setattr(sys, "argv", ["flashferry", *words])
    assert verb_given() == verb


@pytest.mark.parametrize(("url", "is_said"), [("http://127.0.0.1:1", True), ("https://127.0.0.1:1", False)])
def test_a_password_that_would_cross_in_clear_text_is_told(
    url: str, is_said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where it is typed, not in a manual alone; nobody is asked for leave."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("FLASHFERRY_DEPOT_PASSWORD", "word-9-of-mine")
    words = ["depot", "sync", "--from", url, "--user", "x", "--wait-minutes", "0"]
    monkeypatch.setattr(sys, "argv", ["flashferry", *words])
    with pytest.raises(SystemExit):
        main()
    err = capsys.readouterr().err
    assert ("the password, and what the images are to be, crosses the line in clear text" in err) is is_said
    assert "word-9" not in err


@pytest.mark.parametrize(
    "words",
    [
        ("sync", "--from", "https://127.0.0.1:1", "--wait-minutes", "0"),
        ("list",),
        ("verify",),
        ("--transports", "http"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("below", ["", "images"])
def test_a_catalogue_that_is_a_file_is_refused(
    words: tuple[str, ...],
    below: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Once, with status 2, before anybody is asked for anything."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "image.bin"
    file.write_bytes(b"x")
    monkeypatch.setattr(sys, "argv", ["flashferry", "depot", *words, "--catalogue", str(file / below)])
    with pytest.raises(SystemExit) as left:
        main()
    err = capsys.readouterr().err
    assert left.value.code == 2, err
    assert f"catalogue {file / below}: expected a folder, or room for one, found the file {file}" in err
    assert err.count("flashferry:") == 1


IMAGE = "isr4400-universalk9.17.09.04a.SPA.bin"
HELD = (
    api.Held(name=IMAGE, state=api.HeldState.PROVEN, size_bytes=1_034_000_123, sha512="1" * 128, proven_at=now()),
    api.Held(
        name="a" + IMAGE, state=api.HeldState.PARTIAL, size_bytes=782_123_456, sha512="2" * 128, here_bytes=15_800_000
    ),
    api.Held(
        name="b" + IMAGE, state=api.HeldState.DAMAGED, size_bytes=782_123_456, sha512="3" * 128, bad_chunks=(2, 17)
    ),
)


@pytest.mark.parametrize(("columns", "is_full"), [(80, False), (160, True)])
def test_the_list_breaks_no_word(
    columns: int, is_full: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On 80 columns what has no room in the table stands in lines under it; on a wide terminal all is in a row."""
    monkeypatch.setenv("COLUMNS", str(columns))
    _print(HELD)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    heads = ["image", "bytes", "state", "proven", "sha512"] if is_full else ["image", "size", "state", "sha512"]
    assert lines[0].split() == heads
    rows = [one.split() for one in lines[1:4]]
    assert [(row[0], row[-1]) for row in rows] == [(one.name, one.sha512[:16]) for one in HELD]
    told = " ".join(" ".join(lines).split())
    assert f"a{IMAGE}: 15.8 MB here, of them 0 B verified" in told or is_full
    assert "15.8 MB here, of them 0 B verified" in told
    assert "chunks 2, 17; its name is taken away" in told
