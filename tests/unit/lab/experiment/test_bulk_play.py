"""Results of an experiment of bulk copies on disk: nothing is done twice, and a crash costs one line."""

import json

import pytest

from flashferry.depot.probing.figures import Trial
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bulk import play as playing
from flashferry.lab.experiment.bulk.play import TrialLedger, play
from flashferry.lab.experiment.bulk.report import Asked, chosen
from flashferry.lab.experiment.bulk.studies import MIB, series_of


def trial(key: str, number: int, **more) -> Trial:
    return Trial(key=key, number=number, size_bytes=1000, wall_s=1.0, here_cpu_s=0.5, **more)


def test_a_copy_is_kept_and_a_failed_one_done_again(tmp_path):
    """By series, method and round."""
    path = tmp_path / "results.jsonl"
    TrialLedger(path).add("macs", trial("a", 1))
    TrialLedger(path).add("macs", trial("a", 2, error="broke"))
    again = TrialLedger(path)
    assert again.get("macs", "a", 1) == trial("a", 1)
    assert again.get("macs", "a", 2) is None
    assert again.get("ciphers", "a", 1) is None


def test_a_line_cut_short_is_taken_away(tmp_path):
    """The next one stands by itself."""
    path = tmp_path / "results.jsonl"
    TrialLedger(path).add("macs", trial("a", 1))
    with path.open("a") as file:
        file.write('{"series":"macs","tri')
    TrialLedger(path).add("macs", trial("a", 2))
    assert [json.loads(line)["trial"]["number"] for line in path.read_text().splitlines()] == [1, 2]


def test_a_folder_of_something_else_is_refused(tmp_path):
    """With the line that is none of ours."""
    (tmp_path / "results.jsonl").write_text('{"cell": 1}\n')
    with pytest.raises(LabError, match=r"line 1.*give another folder"):
        TrialLedger(tmp_path / "results.jsonl")


def test_what_is_whole_is_not_played_again(tmp_path, monkeypatch):
    """No namespace is made where nothing is missing."""
    series = series_of("bulk", 1)[:1]
    ledger = TrialLedger(tmp_path / "results.jsonl")
    for method in {*series[0].methods, *(one.of_nothing for one in series[0].methods)}:
        for number in (1, 2):
            ledger.add(series[0].name, trial(method.key, number))
    monkeypatch.setattr(playing, "Testbed", None)
    monkeypatch.setattr(playing, "openssl_speeds", lambda *_: {"aes128-ctr": 1e9})
    found = play(series, tmp_path, rounds=2, seed=1, log=lambda _: None, interrupted=lambda: False)
    assert found.is_whole
    assert [row.trials for row in found.rows["blocks"]] == [2] * 6
    assert json.loads((tmp_path / "conditions.json").read_text())["speeds"] == {"aes128-ctr": 1e9}


def test_slow_methods_copy_less():
    """3DES an eighth, gzip a half of its series."""
    ciphers = series_of("ssh", 128)[0]
    sizes = {method.cipher: ciphers.size_of(method) for method in ciphers.methods}
    assert (sizes["3des-cbc"], sizes["aes128-ctr"]) == (16 * MIB, 128 * MIB)
    assert ciphers.size_of(ciphers.methods[0].of_nothing) == 0


def test_a_series_that_is_none_is_refused(tmp_path):
    """With those there are."""
    asked = Asked(experiment="bulk", folder=tmp_path, rounds=1, size_mib=1, seed=1, only=("macs",))
    with pytest.raises(LabError, match="expected part of one of blocks, pipes, dd-ciphers"):
        chosen(asked)
