"""`flashferry nightly init`: the template is whole, never written over anything, and checked as a night would."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from flashferry.cli.program import build
from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.description.check import template, tried, write_template
from flashferry.nightly.description.reading import SECTIONS, load_description
from tests.unit.nightly.describing import written

NOT_TAKEN = re.compile(
    r" *# (bridge|patty|static|environment|keyring|command"  # words of a sentence
    r"|ca_file|login_command|file|routers|conditions|wan|gateway|image_definition)\b"
)
IMAGE = "csr1000v-universalk9.16.12.05.SPA.bin"


@pytest.fixture
def begun(tmp_path):
    """Return the template's file, with the image that it names."""
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / IMAGE).write_bytes(b"image")
    write_template(tmp_path / "nightly.yaml")
    return tmp_path / "nightly.yaml"


def call(*words):
    """Return what a command printed; raise what it refused."""
    words = ("nightly", "init", *map(str, words))
    done = CliRunner().invoke(build(), words)
    if isinstance(done.exception, ConfigInvalid):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_template_can_be_read(begun):
    """As it stands, with nothing but the image there: what it says is what its comments promise."""
    found = tried(begun)
    assert [node.label for node in found.topology.nodes] == ["branch-csr1000v-1", "office-csr1000v-1"]
    assert found.description.thresholds[0].name == "tuned_share_of_cap"


@pytest.mark.parametrize("section", SECTIONS)
def test_the_template_has_keys_of_every_section(section):
    """A key that must be there is there; of each section at least one is shown."""
    shown = set(re.findall(r"^[ #-]*([a-z_0-9]+):", template(), re.MULTILINE)) | set(
        re.findall(r"[{,] ?([a-z_]+):", template())
    )
    keys = SECTIONS[section]
    assert {key.name for key in keys if key.is_required} <= shown
    assert {key.name for key in keys} & shown
    if section not in {"thresholds", "inventory", "limits"}:
        assert {key.name for key in keys} <= shown


def test_what_the_template_leaves_out_can_be_used(begun):
    """Every line that somebody may take the `#` away from is taken, but those that need a file or a source."""
    lines = [
        line if NOT_TAKEN.match(line) else re.sub(r"^( *)# ([a-z_]+: .*|[a-z_]+:)$", r"\1\2", line)
        for line in begun.read_text().splitlines()
    ]
    assert sum("#" not in line for line in lines) > sum("#" not in line for line in template().splitlines()) + 7
    begun.write_text("\n".join(line.replace("#   server", "  server") for line in lines) + "\n")
    found = load_description(begun)
    assert (found.work.transport, found.work.options, found.work.probe_seconds) == ("ftp", ("--port", "2121"), 5.0)
    assert found.inventory_data == {"server_address": "192.0.2.10"}
    assert found.controller.login.username == "nightly"


def test_nothing_is_written_over(begun):
    """What is there stays, were it empty, or a link that leads nowhere."""
    with pytest.raises(ConfigInvalid, match="expected no file, found one"):
        write_template(begun)
    link = begun.with_name("link.yaml")
    link.symlink_to(begun.with_name("nowhere"))
    with pytest.raises(ConfigInvalid, match="expected no file, found one"):
        write_template(link)
    with pytest.raises(ConfigInvalid, match="cannot be written: No such file"):
        write_template(begun.with_name("no") / "nightly.yaml")


def test_init_writes_and_says_what_is_left(tmp_path):
    """The file is there, and the first thing that is to be filled in is told."""
    out = call(tmp_path / "n.yaml")
    assert (tmp_path / "n.yaml").read_text() == template()
    assert "First to be filled in" in out
    assert "night.image" in out
    told = json.loads(call(tmp_path / "m.yaml", "--json"))
    assert told["is_written"] is True
    assert "night.image" in told["left"]


def test_check_tells_the_lab_and_what_is_missing(tmp_path, monkeypatch):
    """Routers with their conditions; a login that is not there yet is no error of the description."""
    for name in ("FLASHFERRY_CML_USERNAME", "FLASHFERRY_CML_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    path = written(tmp_path)
    out = call("--check", path)
    assert "A lab of 4 routers, https://cml.example.net" in out
    assert "branch-iosv-1      behind wan-branch-iosv-1 (branch: 50 Mbit/s, 50 ms, 0.01% lost)" in out
    behind = {line.index("behind") for line in out.splitlines() if "behind" in line}
    assert len(behind) == 1, "columns stand below each other"
    assert "Not ready yet: controller.login: expected a user from the variable FLASHFERRY_CML_USERNAME" in out
    assert "Its controller was not asked" in out
    told = json.loads(call("--check", path, "--offline", "--json"))
    assert told["nodes"][0]["label"] == "branch-csr1000v-1"
    assert told["is_written"] is False
    assert not (tmp_path / "nights").exists(), "a check makes nothing"


def test_check_refuses_what_is_wrong(tmp_path):
    """With the sentence of the description."""
    with pytest.raises(ConfigInvalid, match="whole number of ms"):
        call("--check", written(tmp_path, {"topology.sites.0.condition.latency_ms": 1.5}))
