"""What `stage --dry-run` prints is what a run sends."""

from __future__ import annotations

import pytest

from flashferry.cli.view.device_tables import print_dry_run
from flashferry.images.digests import Digests
from flashferry.model.states import Outcome
from flashferry.run.dry_run import DryRecord
from flashferry.run.options import DeviceOptions
from tests.unit.run.test_device_plan import plan


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
    options = DeviceOptions(verify_signature=signature)
    found = plan(options=options, expected=Digests(md5="a" * 32, sha512=sha512))
    record = DryRecord(host="r1", outcome=Outcome.DONE, plan=found, link_rate=None, notes=(), failure=None)
    print_dry_run((record,))
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in told if line.startswith("verify")] == lines
    copied = told.index(found.copy)
    assert told[copied + 1 : copied + 1 + len(lines)] == lines


def test_a_copy_to_null_has_no_proof(capsys):
    """There is no file to hash."""
    found = plan(options=DeviceOptions(to_null=True))
    print_dry_run((DryRecord(host="r1", outcome=Outcome.DONE, plan=found, link_rate=None, notes=(), failure=None),))
    assert "verify" not in capsys.readouterr().out
