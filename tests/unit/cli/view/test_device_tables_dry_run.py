"""What `stage --dry-run` prints is what a run sends."""

from __future__ import annotations

import pytest

from flashferry.cli.view.device_tables import print_dry_run
from flashferry.core.values import replace
from flashferry.images.image import Digests
from flashferry.model.policy import StagePolicy
from flashferry.model.states import Outcome
from flashferry.run.dry_run import DryRecord
from flashferry.transports import transport_named
from tests.unit.run.test_device_plan import HOST, plan


@pytest.mark.parametrize(
    ("sha512", "signature", "lines"),
    [
        ("b" * 128, False, ["verify /sha512 bootflash:x.bin    ! /md5 where the device refuses /sha512"]),
        ("", False, ["verify /md5 bootflash:x.bin"]),
        ("", True, ["verify /md5 bootflash:x.bin", "verify bootflash:x.bin"]),
    ],
)
def test_the_proof_is_told_as_it_is_sent(capsys, sha512, signature, lines):
    """It said /md5 where /sha512 was sent, and nothing of the signature."""
    policy = StagePolicy(verify_signature=signature)
    found = plan(policy=policy, expected=Digests(md5="a" * 32, sha512=sha512))
    record = DryRecord(host="r1", outcome=Outcome.DONE, plan=found, link_rate=None, notes=(), failure=None)
    print_dry_run((record,))
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in told if line.startswith("verify")] == lines
    copied = told.index(found.copy)
    assert told[copied + 1 : copied + 1 + len(lines)] == lines


def test_a_copy_to_null_has_no_proof(capsys):
    """There is no file to hash."""
    found = plan(to_null=True)
    print_dry_run((DryRecord(host="r1", outcome=Outcome.DONE, plan=found, link_rate=None, notes=(), failure=None),))
    assert "verify" not in capsys.readouterr().out


def printed(capsys, found) -> str:
    print_dry_run((DryRecord(host="r1", outcome=Outcome.DONE, plan=found, link_rate=None, notes=(), failure=None),))
    return capsys.readouterr().out


def test_what_a_copy_can_have_at_most_is_told_where_there_is_a_choice(capsys):
    """By another transport than the usual one, or where the inventory leaves one out; else nothing is new."""
    told = printed(capsys, plan(transport=transport_named("scp"), port=22))
    assert "  ! SCP will run at most at 1.3 MB/s here (SSH window of 131072 bytes); " in told
    assert "FTP at 4.9 MB/s (its link)" in told
    assert "at most" in printed(capsys, plan(host=replace(HOST, transports=("ftp", "http"))))
    assert "at most" not in printed(capsys, plan())


def test_what_is_tried_where_the_line_of_the_channel_is_refused_stands_behind_it(capsys):
    """A release that has no bulk mode is sent another line than the first."""
    told = printed(capsys, plan(transport=transport_named("scp"), port=22)).splitlines()
    first, others = next(line for line in told if "ip ssh bulk-mode" in line).split("    ! ")
    assert first.strip().startswith("ip ssh bulk-mode ")
    assert others.startswith("ip ssh window-size ")
    assert others.endswith(" where the device refuses it")


def test_a_command_stays_on_one_line_however_narrow_the_terminal_is(capsys, monkeypatch):
    """It is to be copied: folded in the middle of a word it would be another command."""
    monkeypatch.setenv("COLUMNS", "40")
    found = plan(transport=transport_named("scp"), port=22)
    long = replace(found, copy=f"{found.copy} {'x' * 300}")
    assert f"  {long.copy}" in printed(capsys, long).splitlines()
