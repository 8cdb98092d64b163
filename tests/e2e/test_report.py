"""A device staged on the lab and reported from the journal: the forms agree with what was done to it."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.some import some

pytestmark = [pytest.mark.lab, pytest.mark.soak]


def test_a_real_run_is_reported_in_every_form(wan_rig):
    """An untuned and a tuned copy: before and after, proofs, all four graphs, and no secret in any form."""
    assert wan_rig.verb("stage", "--no-tune", "--image", wan_rig.image(1_200_000, "before.bin")).code == 0
    done = wan_rig.verb("stage", "--image", wan_rig.image(12_000_000))
    assert done.code == 0, done.err
    forms = {
        form: wan_rig.run("report", "latest", "--format", form, "--threshold", "min_gain=1", "--check")
        for form in ("table", "json", "csv", "junit", "html")
    }
    assert {form: one.code for form, one in forms.items()} == dict.fromkeys(forms, 0)
    (device,) = json.loads(forms["json"].out)["devices"]
    (copy,) = [one for one in device["transfers"] if one["kind"] == "stage"]
    assert copy["acked_bytes"] == 12_000_000
    assert device["restore"]["proof"] == "proven equal to the start"
    assert device["restore"]["running_is_equal"] is True
    assert device["gain"] > 1
    assert ElementTree.fromstring(forms["junit"].out).get("failures") == "0"
    assert forms["html"].out.count('<svg class="graph"') == 4
    everything = "".join(one.out + one.err for one in forms.values())
    for secret in some(wan_rig.secrets):
        assert secret not in everything
