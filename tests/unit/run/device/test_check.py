"""What a device's check decides."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.images.image_platform_match import Fits, ImageFit
from flashferry.model.states import Outcome
from flashferry.planning.image_platforms import GivenImages
from flashferry.run.device.check import decide
from flashferry.run.device.device_run import DeviceRun
from tests.unit.run.device.scripted import Steps, context


@pytest.mark.parametrize(("insists", "outcome"), [(False, Outcome.REFUSED), (True, Outcome.ERROR)])
def test_one_image_does_not_go_to_two_platforms_of_a_run(insists, outcome):
    """The first device decides; the second is refused with both named, unless the operator insists."""
    shared = GivenImages()
    runs = [DeviceRun(Steps(), replace(context(any_image=insists), given=shared)) for _ in range(2)]
    for run, family in zip(runs, ("ISR 4300", "2800"), strict=True):
        fit = ImageFit(fits=Fits.UNKNOWN, reason="", device_family=family)
        facts = SimpleNamespace(serial_number="9X", hostname="r1")
        decide(run, SimpleNamespace(facts=facts, refusal=None, refusal_hint=None, already_there=False, image=fit))
    assert [run.record.outcome for run in runs] == [Outcome.ERROR, outcome]
    if not insists:
        assert "x.bin goes to" in runs[1].record.failure.reason
        assert "(ISR 4300)" in runs[1].record.failure.reason
        assert "--any-image" in runs[1].record.failure.hint
