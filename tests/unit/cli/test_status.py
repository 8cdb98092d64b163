"""`flashferry status` beside the journal: runs that were given to sites, and the catalogue of images."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flashferry.cli.main import main
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.sites.centre.collecting import now
from flashferry.sites.wire import WordKind
from flashferry.store.database import moment
from flashferry.store.sites.database import FILE
from flashferry.store.sites.runs import end_run
from tests.unit.depot.catalogue.test_folder import NAME, fill
from tests.unit.sites.centre.ground import RELEASE, Ground
from tests.unit.sites.centre.plans import device, plan

AMS = [device(f"ams-r{number}", "ams") for number in range(3)]
Status = Callable[..., str]


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Status:
    """Run the command in the state folder `state`, and return what it prints."""
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("FLASHFERRY_CATALOGUE", raising=False)

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["flashferry", "status", *words])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr("flashferry.sites.centre.centre.our_release", lambda: RELEASE)
    return Ground(tmp_path, "ams")


def end(ground: Ground, run: str) -> None:
    with ground.ledger.writing() as database:
        end_run(database, run, at=moment(now()))


def test_a_run_of_sites_is_shown_until_it_ends_and_afterwards(ground: Ground, status: Status) -> None:
    """How far it is, and what shows more of it; once it has ended, what became of its devices."""
    run = ground.begin(plan(AMS))
    ground.record("ams", f"{run}.ams", "ams-r0")
    said = status()
    assert f"{run}: given to 1 site, under way, began" in said
    assert "3 devices: 2 open, 1 done" in said
    assert f"'flashferry sites show {run}' shows each site" in said
    (told,) = json.loads(status("--json"))["site_runs"]
    assert (told["run_id"], told["parts"][0]["devices"]) == (run, {"open": 2, "done": 1})
    ground.do_all("ams", f"{run}.ams", ["ams-r1", "ams-r2"])
    end(ground, run)
    said = status()
    assert f"{run}: given to 1 site, ended, began" in said
    assert "3 devices: 3 done" in said
    assert "sites show" not in said


def test_a_device_that_a_site_left_in_hand_is_shown_with_what_to_do(ground: Ground, status: Status) -> None:
    """It is at the site that it is restored."""
    run = ground.begin(plan(AMS))
    ground.say("ams", f"{run}.ams", WordKind.ENDED, {"job": "stage", "exit_code": None, "held": ["ams-r1"]})
    assert f"{run}: not proven restored: ams-r1; run 'flashferry recover' at site ams" in status()


def test_runs_that_are_open_are_shown_however_old(ground: Ground, status: Status) -> None:
    """As in the journal: the latest so many, and besides what has not ended."""
    runs = [ground.begin(plan(AMS)) for _ in range(3)]
    end(ground, runs[1])
    said = status("--last", "1")
    assert [run in said for run in runs] == [True, False, True]


def test_a_ledger_that_cannot_be_used_hides_nothing_else(tmp_path: Path, status: Status) -> None:
    """The reason is shown, in the document too; a host that is no centre gets no ledger."""
    status()
    assert not (tmp_path / "state" / FILE).exists()
    (tmp_path / "state").mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "state" / FILE).write_text("no database")
    said = status()
    assert "no journal: nothing was staged" in said
    assert "the ledger of sites" in said
    (trouble,) = json.loads(status("--json"))["troubles"]
    assert "is damaged" in trouble


def test_the_catalogue_is_shown_and_no_image_of_it_is_read(
    tmp_path: Path, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is proven, what is under way, and what only 'depot list' can judge; nothing where there is no catalogue."""
    assert "catalogue: " not in status()
    monkeypatch.setattr("flashferry.depot.catalogue.folder.read_manifest", lambda *_, **__: pytest.fail("it reads"))
    catalogue = CatalogueFolder(tmp_path / "state" / "catalogue")
    fill(catalogue, upto=2)
    assert f"catalogue: {catalogue.path}: {NAME} under way, 55% verified" in status()
    fill(catalogue)
    (catalogue.path / "own.bin").write_bytes(b"x")
    said = status()
    assert (
        f"catalogue: {catalogue.path}: 1 image proven; 1 file without a valid proof ('flashferry depot list')" in said
    )
    told = json.loads(status("--json"))["catalogue"]
    assert (told["proven"], told["under_way"], told["others"]) == ([NAME], [], ["own.bin"])
    with (catalogue.path / NAME).open("ab") as file:
        file.write(b"x")
    assert f"{catalogue.path}: 2 files without a valid proof" in status()
    assert f"catalogue: {tmp_path / 'none'}: empty" in status("--catalogue", str(tmp_path / "none"))
    assert "expected a folder" in status("--catalogue", str(catalogue.path / "own.bin"))
