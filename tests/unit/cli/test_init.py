"""`flashferry init`: by options, by a table, and by questions at a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest

from flashferry.cli.main import main
from inventory.host_view import view
from inventory.nornir_loader import open_inventory
from inventory.sites import sites_of


class Terminal(io.StringIO):
    """Somebody who has typed all answers already."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Return what runs the command in a folder of its own, and returns its exit code and what it wrote."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path / "state"))

    def run(*words: str, typed: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["flashferry", "init", *words])
        monkeypatch.setattr(sys, "stdin", io.StringIO() if typed is None else Terminal(typed))
        with pytest.raises(SystemExit) as left:
            main()
        return (left.value.code or 0, *capsys.readouterr())

    return run


def test_devices_by_options_and_by_a_table_make_one_inventory(tmp_path, said):
    """What was said of all of them holds where nothing else was said."""
    (tmp_path / "t.csv").write_text("name,address,site\nr2,192.0.2.2,par\nr3,192.0.2.3,\n")
    words = ("--host", "r1=192.0.2.1:2022", "--csv", "t.csv", "--site", "ams", "--user", "ann", "--link-mbps", "2.5")
    code, out, _ = said("new", *words, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == "flashferry.init/1"
    assert (document["devices"], document["sites"]) == (["r1", "r2", "r3"], ["ams", "par"])
    views = [view(one) for one in open_inventory(tmp_path / "new").inventory.hosts.values()]
    assert [(one.name, one.port, one.site) for one in views] == [
        ("r1", 2022, "ams"),
        ("r2", 22, "par"),
        ("r3", 22, "ams"),
    ]
    assert {site.link_rate_bps for site in sites_of(views).values()} == {2.5e6}


def test_it_says_what_to_do_next_and_whence_passwords_come(said):
    """Every line of it can be typed as it stands, also with a folder that wants quotes."""
    code, out, _ = said("my routers", "--host", "r1=192.0.2.1")
    assert code == 0
    assert "  export FLASHFERRY_INVENTORY='my routers'\n  flashferry doctor\n  flashferry check\n" in out
    assert "FLASHFERRY_PASSWORD" in out


def test_questions_are_asked_at_a_terminal_until_the_answer_will_do(tmp_path, said):
    """A wrong answer costs nothing but another try; nothing is asked twice that is known."""
    typed = (
        "r1\nr1=300.1.1.1\nr1=192.0.2.1\nr1=192.0.2.9\nr2=192.0.2.1\nr2=192.0.2.2\nr3=192.0.2.3\n\n"
        "ams terdam\nams\n\npar\nfast\n50\n2\nann\n"
    )
    code, _, err = said(typed=typed)
    assert code == 0
    assert err.count("Device 1: ") == 3
    assert err.count("Device 2: ") == 3
    assert "expected each name once, found r1 twice" in err
    hosts = open_inventory(tmp_path / "routers").inventory.hosts
    assert {name: (host.hostname, host.username) for name, host in hosts.items()} == {
        "r1": ("192.0.2.1", "ann"),
        "r2": ("192.0.2.2", "ann"),
        "r3": ("192.0.2.3", "ann"),
    }
    found = {name: (view(host).site, view(host).link_rate_bps) for name, host in hosts.items()}
    assert found == {"r1": ("ams", 5e7), "r2": ("ams", 5e7), "r3": ("par", 2e6)}
    assert err.index("Device 1: ") < err.index("Site of r1 (one word; nothing: none): ")
    assert "Site of r2 (nothing: ams; - for none): " in err
    assert "Rate of par's WAN link" in err


def test_a_login_is_tested_where_that_is_asked_for(tmp_path, said, monkeypatch):
    """Of the new inventory's first device; a refusal is a sentence, and the inventory stands all the same."""
    monkeypatch.setenv("FLASHFERRY_USERNAME", "ann")
    monkeypatch.setenv("FLASHFERRY_PASSWORD", "x")
    code, out, err = said(typed="r1=127.0.0.1:9\n\n\n\ny\n")
    assert code == 0
    assert "Log in to r1 now, to test it?" in err
    assert "flashferry: r1: connect: no SSH session with 127.0.0.1 port 9" in err
    assert "routers is written" in out


@pytest.mark.parametrize("typed", ["\n\n", "r1=192.0.2.1\n", "r1=192.0.2.1\n\nams\n", ""])
def test_questions_that_are_not_answered_write_nothing(tmp_path, said, typed):
    """No device, or the end of the input in the midst of them."""
    code, _, err = said(typed=typed)
    assert code == 2
    assert "flashferry: error: expected" in err
    assert not (tmp_path / "routers").exists()


@pytest.mark.parametrize(
    ("words", "said_of_it"),
    [
        ((), "expected devices, found none"),
        (("--host", "r1"), "--host: expected NAME=ADDRESS"),
        (("--host", "r1=192.0.2.1", "--host", "r1=192.0.2.2"), "expected each name once, found r1 twice"),
        (
            ("--host", "r1=192.0.2.1", "--host", "r2=192.0.2.1"),
            "expected each address once, found 192.0.2.1 for r1 and r2",
        ),
        (("--host", "r1=192.0.2.1", "--csv", "nothing.csv"), "nothing.csv: cannot be read"),
        (("--host", "r1=192.0.2.1", "--site", "a b"), "--site: expected one word"),
        (("--host", "r1=192.0.2.1", "--user", "a\nb"), "--user: expected one line"),
        (("--host", "r1=192.0.2.1", "--link-mbps", "5"), "--link-mbps: expected a site with it"),
        (("--host", "r1=192.0.2.1", "--link-mbps", "0"), "--link-mbps"),
    ],
)
def test_a_mistake_is_a_sentence_and_nothing_is_written(tmp_path, said, words, said_of_it):
    """Exit code 2, before a folder is made."""
    code, _, err = said("new", *words)
    assert (code, said_of_it in err) == (2, True), err
    assert list(tmp_path.iterdir()) == []


def test_an_inventory_that_is_there_is_told_before_anything_is_asked(tmp_path, said):
    """Nobody answers questions for nothing."""
    (tmp_path / "routers").mkdir()
    (tmp_path / "routers" / "hosts.yaml").write_text("r1: {}\n")
    code, _, err = said(typed="ams\nr1=192.0.2.1\n\n\n\n")
    assert code == 2
    assert "routers/hosts.yaml: expected no file, found one" in err
    assert "Device" not in err
