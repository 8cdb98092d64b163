"""The benchmark of sites by real agents, at a size that is soon through."""

from pathlib import Path

import pytest

from benchmarks.sites_real import measured
from benchmarks.sites_real_ground import Size
from benchmarks.sites_real_seen import BOUND, targets
from flashferry.lab.broker import missing_broker
from tests.needs import lacking

pytestmark = [pytest.mark.lab, pytest.mark.soak]


def test_real_agents_stage_every_router_once_and_leave_each_as_it_was(tmp_path: Path) -> None:
    """By flash and configurations of the stand-ins, and by the centre's ledger; how much it costs counts elsewhere."""
    if reason := missing_broker():
        lacking(reason)
    found = measured(Size(routers=4, sites=2, agents=2, image_bytes=30_000), tmp_path / "run", hardships=False)
    missed = [one for one in targets(found) if not one.met and f"at most {BOUND:.0%}" not in one.text]
    assert not missed
    assert (found.told.devices, found.seen.begun) == (4, 4)
