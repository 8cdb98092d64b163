"""What is wrong in a description, or does not fit its controller, is one sentence before a lab is made."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flashferry.cli.main import main
from flashferry.lab.authority import Authority
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.description.logins import controller_access
from flashferry.nightly.description.reading import load_description
from tests.component.nightly.cml.standing import TEXT
from tests.component.nightly.matrix.ground import Ground
from tests.component.nightly.matrix.player import played_with, write_description

USAGE, LAB = 2, 7


@pytest.fixture
def nobodys() -> Iterator[str]:
    """Return an address and a port that is bound and not listened at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def ground(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """The ground, with its login in the environment."""
    monkeypatch.setenv("FLASHFERRY_CML_USERNAME", ground.standin.username)
    monkeypatch.setenv("FLASHFERRY_CML_PASSWORD", ground.password)
    return ground


@dataclass(frozen=True, kw_only=True)
class Bad:
    """Something wrong.

    Attributes:
        code: The exit code.
        told: Words of the sentence.
        old: What of the description is replaced, by `new`.
        new: `URL` in it is the controller's host and port, `NOBODYS` one where nobody listens.
        switches: What is set on the controller.
        password: The controller's that is given, where it is not the right one.
        prepare: What lies beside the description.
    """

    code: int
    told: str
    old: str = ""
    new: str = ""
    switches: dict[str, Any] = field(default_factory=dict)
    password: str = ""
    prepare: Callable[[Path], object] = lambda folder: None


def _other_authority(folder: Path) -> None:
    (folder / "other.pem").write_text(Authority("Other").pem)


def _own(folder: Path, old: str, new: str) -> None:
    """Write a topology that is of somebody's own: it lets SSH in, and is replaced in."""
    ssh = "    ip domain name lab\n    line vty 0 4\n     login local\n     transport input ssh\n  interfaces:"
    address = "    interface GigabitEthernet1\n     ip address dhcp\n"
    (folder / "lab.yaml").write_text(TEXT.replace("  interfaces:\n", address + ssh + "\n", 1).replace(old, new))


SITES = """topology:
  sites:
    - name: wan50
      condition: {bandwidth_kbps: 50000, latency_ms: 50, loss_percent: 0.01}
      nodes: [{node_definition: csr1000v, count: 2}]
night: {image: image.bin, copies: 1, capture_node: wan50-csr1000v-1}
"""
OWN = """topology: {file: lab.yaml, conditions: {wan: {latency_ms: 50}}}
devices: {login: environment}
night: {image: image.bin, copies: 1}
"""
CASES = {
    "no https": Bad(code=USAGE, told="expected", old="https://", new="http://"),
    "no address": Bad(code=USAGE, told="expected", old="https://", new="https://no such host/"),
    "a path": Bad(code=USAGE, told="expected", old="URL'", new="URL/ui'"),
    "nobody there": Bad(code=LAB, told="cannot be reached", old="URL", new="NOBODYS"),
    "an unknown name": Bad(code=LAB, told="its name is not known", old="URL", new="cml.invalid"),
    "a CA that is none": Bad(
        code=USAGE,
        told="key 'controller.ca_file'",
        old="CA",
        new="ca.txt",
        prepare=lambda folder: (folder / "ca.txt").write_text("none"),
    ),
    "a CA that is not there": Bad(code=USAGE, told="none.pem", old="CA", new="none.pem"),
    "somebody else's CA": Bad(
        code=LAB, told="its certificate is not proven", old="CA", new="other.pem", prepare=_other_authority
    ),
    "a wrong password": Bad(code=LAB, told="refused the login", password="Xy-not-the-password"),
    "an unknown node definition": Bad(code=USAGE, told="node_definition", old="csr1000v, count", new="nexus, count"),
    "one of a topology of one's own": Bad(
        code=LAB,
        told="expected the node definition 'no-such-switch'",
        old=SITES,
        new=OWN,
        prepare=lambda folder: _own(folder, "node_definition: external_connector", "node_definition: no-such-switch"),
    ),
    "an unknown image definition": Bad(
        code=LAB,
        told="expected the image definition 'csr-99'",
        old="csr1000v, count",
        new="csr1000v, image_definition: csr-99, count",
    ),
    "more nodes than the licence": Bad(code=LAB, told="expected room for 2 nodes, found 1", switches={"quota": 2}),
    "more nodes than a lab has": Bad(code=USAGE, told="at most 31", old="count: 2", new="count: 32"),
    "a latency out of range": Bad(code=USAGE, told="latency_ms", old="latency_ms: 50", new="latency_ms: 10001"),
    "half a millisecond": Bad(code=USAGE, told="latency_ms", old="latency_ms: 50", new="latency_ms: 0.5"),
    "a loss out of range": Bad(code=USAGE, told="loss_percent", old="loss_percent: 0.01", new="loss_percent: 101"),
    "a rate out of range": Bad(code=USAGE, told="bandwidth_kbps", old="_kbps: 50000", new="_kbps: 10000001"),
    "an unknown key": Bad(code=USAGE, told="copis", old="copies: 1", new="copis: 1"),
    "an unknown key of a condition": Bad(code=USAGE, told="unknown key", old="latency_ms", new="delay"),
    "no image": Bad(code=USAGE, told="none.bin", old="image.bin", new="none.bin"),
}


QUICK = {
    "no https",
    "nobody there",
    "somebody else's CA",
    "a wrong password",
    "an unknown node definition",
    "one of a topology of one's own",
    "more nodes than the licence",
    "a latency out of range",
    "an unknown key",
}


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.soak) for one in CASES])
def test_what_is_wrong_is_one_sentence_and_no_lab(ground, nobodys, tmp_path, monkeypatch, capsys, name):
    """With what to do; nothing is imported, and the password is in no output."""
    bad = CASES[name]
    bad.prepare(tmp_path)
    file = write_description(tmp_path, "https://URL", Path("CA"))
    text = file.read_text()
    assert bad.old in text
    text = text.replace(bad.old, bad.new) if bad.old else text
    url = ground.standin.url.removeprefix("https://")
    text = text.replace("URL", url).replace("NOBODYS", nobodys)
    file.write_text(text.replace("'CA'", f"'{ground.standin.ca_file}'"))
    ground.standin.faults.set(**bad.switches)
    if bad.password:
        monkeypatch.setenv("FLASHFERRY_CML_PASSWORD", bad.password)
    monkeypatch.setenv("FLASHFERRY_USERNAME", "u")
    monkeypatch.setenv("FLASHFERRY_PASSWORD", "of-the-nodes-themselves")
    words = ["nightly", "run", str(file), "--state-dir", str(tmp_path / "state"), "--json"]
    monkeypatch.setattr("sys.argv", ["flashferry", *words])
    before, first = ground.labs(), len(ground.standin.exchanges)
    with (
        played_with(
            backend=lambda: CmlBackend(controller_access(load_description(file).controller), clock=ground.clock),
            clock=ground.clock,
            change=lambda parts: {},
        ),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    said = capsys.readouterr()
    assert ended.value.code == bad.code, said.err
    sentence = _sentence(json.loads(said.out))
    assert bad.told in sentence
    assert "\n" not in sentence
    assert [one.path for one in ground.standin.exchanges[first:] if one.path.startswith("import")] == []
    # What a dead night left goes where room was looked for; nothing else does, and nothing is new.
    assert ground.labs() == {lab: told for lab, told in before.items() if "room" not in sentence or lab != ground.dead}
    passwords = (ground.password, bad.password, "of-the-nodes-themselves")
    assert not [one for one in passwords if one and one in said.out + said.err]
    assert "Traceback" not in said.err


def _sentence(told: dict[str, Any]) -> str:
    """Return what was wrong: of a night, its only step that failed."""
    if "night" not in told:
        return str(told["error"])
    failed = [one for one in told["night"]["steps"] if one["outcome"] == "failed"]
    # Room is looked for once more when the labs of dead nights are gone.
    step = "reap" if "room" in failed[0]["sentence"] else "preflight"
    assert [(one["name"], one["fault"]) for one in failed] == [(step, "lab")]
    assert failed[0]["hint"]
    return str(failed[0]["sentence"])
