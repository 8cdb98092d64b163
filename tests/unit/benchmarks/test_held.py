"""Held figures: each has a band, a median decides, and a busy machine is not measured on."""

from __future__ import annotations

import json

import pytest

from benchmarks.held import __main__ as held
from benchmarks.held import history, machine
from benchmarks.held.figure import Band, Figure, all_figures, read_bands


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A history of its own, and a machine that is idle."""
    path = tmp_path / "held.jsonl"
    monkeypatch.setattr(held, "append", lambda entry: history.append(entry, path))
    monkeypatch.setattr(held, "read", lambda: history.read(path))
    monkeypatch.setattr(held, "busy_reason", lambda: "")
    monkeypatch.setattr(machine.Ticks, "steal_percent_since", lambda self, before: 0.0)
    return path


def known(monkeypatch, *values, least=None, most=None):
    """Let there be one figure, which has these values one after the other."""
    left = iter(values)
    one = Figure(name="share", unit="ratio", doc="", function=lambda: next(left))
    monkeypatch.setattr(held, "all_figures", lambda: {"share": one})
    monkeypatch.setattr(held, "read_bands", lambda: {"share": Band(least=least, most=most, why="a test")})


def test_each_figure_has_a_band_and_says_what_it_measures():
    """And each band a figure, so that none is left over."""
    figures, bands = all_figures(), read_bands()
    assert sorted(figures) == sorted(bands)
    assert [one.name for one in figures.values() if not one.doc.startswith("Measure")] == []


def test_the_median_decides(kept, monkeypatch, capsys):
    """Two tries of five may lie outside; three may not."""
    known(monkeypatch, 0.1, 9.0, 1.0, 1.1, 0.9, least=0.8, most=1.2)
    assert held.main([]) == 0
    known(monkeypatch, 0.1, 0.2, 0.3, 1.1, 0.9, least=0.8, most=1.2)
    assert held.main([]) == 1
    assert "not held   share = 0.3 ratio (0.1 to 1.1; expected >= 0.8 and <= 1.2)" in capsys.readouterr().out
    verdicts = [(line["verdict"], len(line["values"])) for line in map(json.loads, kept.read_text().splitlines())]
    assert verdicts == [("held", 5), ("not held", 5)]


def test_a_busy_machine_is_not_judged_on(kept, monkeypatch, capsys):
    """Whether other processes wait before a try, or the host takes time in it: exit code 3, and nothing is kept."""
    known(monkeypatch, *[1.0] * 5, least=0.5)
    monkeypatch.setattr(held, "busy_reason", lambda: "other processes keep the machine busy")
    assert held.main([]) == 3
    monkeypatch.setattr(held, "busy_reason", lambda: "")
    monkeypatch.setattr(machine.Ticks, "steal_percent_since", lambda self, before: 2.0)
    assert held.main([]) == 3
    assert not kept.exists()
    assert "not judged share: the host took 2.0 % of the processors' time" in capsys.readouterr().out


def test_a_machine_that_stays_busy_is_waited_for_and_then_named(monkeypatch):
    """What ran just before counts as pressure for a while."""
    read = iter([30.0, 9.9])
    monkeypatch.setattr(machine, "pressure_percent", lambda: next(read))
    monkeypatch.setattr(machine.time, "sleep", lambda _: None)
    assert machine.busy_reason() == ""
    monkeypatch.setattr(machine, "pressure_percent", lambda: 30.0)
    assert machine.busy_reason(limit_s=-1.0).startswith("other processes keep the machine busy (PSI some avg10 30 %")


def test_steal_is_a_share_of_all_processor_time():
    """By two readings of /proc/stat."""
    before, after = machine.Ticks(total=1000, steal=10), machine.Ticks(total=1200, steal=14)
    assert after.steal_percent_since(before) == 2.0
    assert before.steal_percent_since(before) == 0.0
    assert machine.Ticks.now().total > 0


def test_a_figure_stands_beside_its_own_past(kept, monkeypatch, capsys):
    """Once there are enough earlier runs, a median that is out of their spread is said to be."""
    for _ in range(8):
        known(monkeypatch, *[1.0] * 5, least=0.1)
        held.main([])
    known(monkeypatch, *[0.7] * 5, least=0.1)
    held.main([])
    assert "lower than usual" in capsys.readouterr().out.splitlines()[-2]


def test_an_unknown_name_is_refused_with_the_known_ones(kept, monkeypatch, capsys):
    """Before anything is measured."""
    known(monkeypatch, 1.0, least=0.1)
    assert held.main(["shore"]) == 2
    assert capsys.readouterr().err == "unknown: shore; known: share\n"


@pytest.mark.parametrize("text", ["[a]\nwhy = 'x'", "[a]\nleast = 1", "[a]\nleast = 1\nwhy = 'x'\nmots = 2"])
def test_a_band_limits_something_and_says_why(tmp_path, text):
    """A key that is misspelt is no limit."""
    (tmp_path / "bands.toml").write_text(text)
    with pytest.raises(ValueError, match="expected least or most, and why"):
        read_bands(tmp_path / "bands.toml")
