"""What one look says of an activation, for every state of the tables and of the running file."""

from __future__ import annotations

import pytest

from flashferry.core.codec import decode, to_json
from flashferry.core.values import replace
from flashferry.model.activation import Activation, ActivationLimits, Phase, Sighting, sighting
from tasks.activating.boot_order import BootOrder
from tasks.activating.service_state import ServiceState
from tasks.software_state import Answer, Outcome, Topic, software_state

RULE = "-" * 80


def activation(**given):
    values = {
        "phase": Phase.ACTIVATING,
        "is_install": True,
        "image": "cat9k.bin",
        "path": "flash:cat9k.bin",
        "version": "17.12.04.0.1",
        "before": ServiceState(release="17.06.03", running_file="bootflash:old.bin"),
        "order": None,
        "limits": ActivationLimits(),
        "since": "2026-11-26T12:00:00+00:00",
    }
    return Activation(**(values | given))


def installed(release, *rows, timer="inactive"):
    summary = "\n".join(
        (
            "[ R0 ] Installed Package(s) Information:",
            "State (St): I - Inactive, U - Activated & Uncommitted,",
            "            C - Activated & Committed, D - Deactivated & Uncommitted",
            RULE,
            "Type  St   Filename/Version",
            RULE,
            *(f"IMG   {row}" for row in rows),
            "",
            RULE,
            f"Auto abort timer: {timer}",
            RULE,
        )
    )
    version = f'Cisco IOS XE Software, Version {release}\nSystem image file is "bootflash:packages.conf"\n'
    return software_state(
        {
            Topic.VERSION: Answer(command="show version", outcome=Outcome.READ, text=version),
            Topic.INSTALL: Answer(command="show install summary", outcome=Outcome.READ, text=summary),
            **{topic: Answer(command="x", outcome=Outcome.NOT_THERE) for topic in list(Topic)[2:]},
        }
    )


OLD, NEW = "17.06.03", "17.12.04"
ACTIVE = "active , time before rollback - 00:55:10"


@pytest.mark.parametrize(
    ("software", "expected"),
    [
        (installed(OLD, "I    17.12.04.0.1", "C    17.06.03.0.1"), Sighting.OLD_RUNS),
        (installed(OLD, "U    17.12.04.0.1", "D    17.06.03.0.1", timer=ACTIVE), Sighting.IN_PROGRESS),
        (installed(NEW, "U    17.12.04.0.1", "D    17.06.03.0.1", timer=ACTIVE), Sighting.NEW_RUNS),
        (installed(NEW, "C    17.12.04.0.1", "I    17.06.03.0.1"), Sighting.COMMITTED),
        (installed(NEW, "C    17.12.04.0.1", "I    17.06.03.0.1", timer=ACTIVE), Sighting.UNKNOWN),
        (installed(OLD, "C    17.12.04.0.1", "I    17.06.03.0.1"), Sighting.UNKNOWN),
        (installed(NEW, "U    17.09.01.0.1", "D    17.06.03.0.1", timer=ACTIVE), Sighting.UNKNOWN),
        (installed("17.03.01", "C    17.03.01.0.1"), Sighting.UNKNOWN),
        (installed(NEW), Sighting.UNKNOWN),
    ],
)
def test_a_look_at_install_mode(software, expected):
    """The tables and the running release must agree; anything else is not guessed."""
    assert sighting(activation(), software) is expected


def test_a_commit_that_one_member_did_not_take_is_none():
    """One switch has the new image committed, the other one the old image still."""
    half = installed(NEW, "C    17.12.04.0.1", "I    17.06.03.0.1")
    other = tuple(replace(row, location="Switch 2", state={"C": "I", "I": "C"}[row.state]) for row in half.packages)
    assert sighting(activation(), replace(half, packages=(*half.packages, *other))) is Sighting.UNKNOWN
    whole = tuple(replace(row, location="Switch 1 2") for row in half.packages)
    assert sighting(activation(), replace(half, packages=whole)) is Sighting.COMMITTED


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("flash:/cat9k.bin", Sighting.NEW_RUNS),
        ("bootflash:cat9k.bin", Sighting.NEW_RUNS),
        ("flash:old.bin", Sighting.OLD_RUNS),
        ("flash:third.bin", Sighting.UNKNOWN),
        (None, Sighting.UNKNOWN),
    ],
)
def test_a_look_at_a_device_that_boots_a_file(file, expected):
    """Whatever name the device has for its flash."""
    line = f'System image file is "{file}"\n' if file else ""
    version = f"Cisco IOS XE Software, Version 17.12.04\n{line}"
    answers = {Topic.VERSION: Answer(command="show version", outcome=Outcome.READ, text=version)}
    answers |= {topic: Answer(command="x", outcome=Outcome.NOT_THERE) for topic in list(Topic)[1:]}
    assert sighting(activation(is_install=False, version=None), software_state(answers)) is expected


def test_an_activation_is_what_it_was_behind_the_journal():
    """With its boot order and what the device did before."""
    kept = activation(order=BootOrder(before=(), wanted=("boot system flash:x",)))
    assert decode(Activation, to_json(kept)) == kept
