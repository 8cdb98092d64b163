"""What is brought to a device between journal and restore."""

from __future__ import annotations

from dataclasses import replace

from flashferry.run.device.parts import parts_of
from tests.unit.run.device.scripted import Steps, context


def test_a_hash_takes_no_longer_than_what_was_learned_of_the_device_allows():
    """Its speed of earlier runs goes along; of another device nothing is known."""
    given = []
    for host in ("r1", "r2"):
        steps = Steps(verify=lambda task, **arguments: given.append(arguments["known_bytes_per_s"]))
        steps.host.name = host
        parts_of(steps, replace(context(), hash_speeds={"r1": 7e6})).delivery.verify("flash:x.bin")
    assert given == [7e6, None]
