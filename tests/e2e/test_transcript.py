"""Transcripts of sessions on the lab: all that was sent and came, in order, and no secret; no device is held up."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab
DEVICE = "xe1"

DRAWN = """
import secrets
_choice = secrets.choice
def choice(of):
    found = _choice(of)
    with open({path!r}, "a") as file:
        file.write(found)
    return found
secrets.choice = choice
"""
"""Has every letter of a ticket noted as it is drawn: eight of the user's name, then sixteen of the password."""

FULL = """
import os, threading
_write, _left = os.write, [6000]
def write(number, data):
    if threading.current_thread().name == "transcripts":
        _left[0] -= len(data)
        if _left[0] < 0:
            raise OSError(28, "No space left on device")
    return _write(number, data)
os.write = write
"""
"""A disk that is full after six kilobytes of transcripts."""


def with_code(rig, code: str) -> None:
    """Have flashferry's process run a piece of code before anything else."""
    folder = rig.folder / "startup"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    rig.environment["PYTHONPATH"] = str(folder)


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def said(files: list[Path]) -> list[str]:
    """Return the entries of files without their times, which go up and are of these days."""
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert all(re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [<>-] ", line) for line in lines)
    return [line[25:] for line in lines]


def test_a_staging_run_is_told_whole(new_rig):
    """Every command with its answer, between the remarks of the steps; no password, enable secret or ticket in it."""
    with new_rig(privilege=1) as rig:
        drawn, folder = rig.folder / "drawn", rig.folder / "transcripts"
        with_code(rig, DRAWN.format(path=str(drawn)))
        done = rig.verb("stage", "--image", rig.image(300_000), "--transcript", folder)
        assert done.code == 0, done.err
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = files_in(folder)
        assert files
        assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
        lines = said(files)
        text = "\n".join(lines)

        letters = drawn.read_text()
        assert len(letters) >= 24
        tickets = [letters[at : at + 24] for at in range(0, len(letters), 24)]
        eights = {one[at : at + 8] for one in tickets for at in (0, *range(8, 17))}
        everything = text + done.out + done.err + "".join(map(str, files))
        assert not [one for one in (*rig.secrets, *eights) if one in everything]
        assert "> copy ftp://***@198.18.0.1" in text
        assert "> ***\\n" in lines, "the enable secret at its question"
        assert re.search(r"^< enable secret \d \*\*\*", text, re.MULTILINE)

        steps = [
            "- xe1: logging in to 198.18.1.11 port 22 as 'ferry'",
            "> enable\\n",
            "- check: started",
            "> show running-config\\n",
            "- tune: started",
            "> configure terminal\\n",
            "> ip tcp selective-ack\\n",
            "- pull: started",
            "- restore: started",
            "> no ip tcp selective-ack\\n",
            "- logged out",
        ]
        places = [lines.index(one) for one in steps]
        assert places == sorted(places)
        for sent, line in enumerate(lines):
            if line.startswith("> show "):
                assert f"< {line[2:-2]}\\r\\n" in lines[sent + 1 : sent + 3]
        assert "< Loading image.bin !!\\r\\n" in lines
        assert lines[lines.index("< Destination filename [image.bin]? ") + 1] == "> \\n"


@pytest.mark.soak
def test_the_report_of_a_failed_device_has_its_last_words(rig):
    """Without any option: the failing command and its answer are in record, report and page; a good device has none."""
    assert rig.verb("check").json["devices"][0]["failure"] is None
    rig.world.fault(DEVICE, refuse_config_pattern="selective-ack")
    done = rig.verb("stage", "--image", rig.image(300_000))
    (device,) = done.json["run"]["devices"]
    failure = device["failure"]
    assert (failure["kind"], failure["step"]) == ("DeviceRefused", "tune")
    lines = [one[25:] for one in failure["transcript"]]
    at = lines.index("> ip tcp selective-ack\\n")
    assert any("authorization failed" in one for one in lines[at:])
    assert lines[-1].startswith("- tune: failed")
    assert len(lines) <= 40
    assert sum(map(len, failure["transcript"])) <= 4096
    told = rig.run("report", "latest", "--format", "json").json["devices"][0]["transcript"]
    assert told[: len(lines)] == failure["transcript"]
    page = rig.run("report", "latest", "--format", "html").out
    assert "&gt; ip tcp selective-ack\\n" in page
    assert not [one for one in rig.secrets if one in done.out + page]


@pytest.mark.soak
def test_a_disk_that_fills_up_disturbs_nothing(rig):
    """The device is staged and restored as without a transcript; it is told once."""
    with_code(rig, FULL)
    before = rig.configurations()
    done = rig.verb("stage", "--image", rig.image(300_000), "--transcript", rig.folder / "transcripts")
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), done.err
    assert done.err.count("cannot be written: No space left on device") == 1
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_folder_that_cannot_be_written_stops_before_anything(rig):
    """Every verb that talks to devices refuses it with exit code 2; the device hears nothing of it."""
    image = rig.image(300_000)
    for verb, options in (
        ("check", ()),
        ("probe", ()),
        ("plan", ("--image", image)),
        ("stage", ("--image", image)),
        ("stage", ("--image", image, "--dry-run")),
    ):
        done = rig.verb(verb, *options, "--transcript", "/proc/nowhere")
        assert done.code == 2, done.err
        assert "transcript folder /proc/nowhere: expected a folder to write to" in done.err
    assert not (rig.state / "known_hosts").exists()


@pytest.mark.parametrize(
    "verb", ["check", *(pytest.param(one, marks=pytest.mark.soak) for one in ("plan", "probe", "recover"))]
)
def test_other_verbs_write_transcripts_too(rig, verb):
    """By the option or the environment variable, one session a file; recovery too where it has something to do."""
    folder = rig.folder / "transcripts"
    if verb == "recover":
        rig.hold_copies()
        with rig.started("stage", "--inventory", rig.inventory, "--image", rig.image(300_000), "--json"):
            rig.until_held()
        rig.release()
    rig.environment["FLASHFERRY_TRANSCRIPT"] = str(folder)
    options = {"plan": ("--image", rig.image(300_000, "other.bin")), "probe": ("--seconds", "2")}
    done = rig.verb(verb, *options.get(verb, ()))
    assert done.code == 0, done.err
    lines = said(files_in(folder))
    assert "> show version\\n" in lines
    assert lines[-1] == "- logged out"
    assert not [one for one in rig.secrets if one in "\n".join(lines)]
