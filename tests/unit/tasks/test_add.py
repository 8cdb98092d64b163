"""`install add` by what the device shows before and behind it, whatever it says in between."""

from __future__ import annotations

import pytest

from flashferry.devices.errors import InstallRefused, OutputNotUnderstood
from flashferry.images.release import release_of_image
from tasks.add import AddOutcome, add_image
from tests.unit.tasks.test_install import ADDED, ALREADY, MODIFIED, NO_ROOM

NAME = "c8000v-universalk9.17.12.04a.SPA.bin"
WANTED = release_of_image(NAME)
VERSION = """\
Cisco IOS XE Software, Version 17.06.03a
System image file is "bootflash:packages.conf"
Router operating mode: Autonomous
Configuration register is 0x2102
"""
RULE = "-" * 80


def summary(*packages: tuple[str, str], timer: str = "inactive") -> str:
    rows = "".join(f"IMG   {state}    {version}\n" for state, version in packages)
    return (
        "[ R0 ] Installed Package(s) Information:\n"
        "State (St): I - Inactive, U - Activated & Uncommitted,\n"
        "            C - Activated & Committed, D - Deactivated & Uncommitted\n"
        f"{RULE}\nType  St   Filename/Version    \n{RULE}\n{rows}\n{RULE}\nAuto abort timer: {timer}\n{RULE}\n"
    )


OLD = ("C", "17.06.03a.0.3")
NEW = ("I", "17.12.04a.01.79")
OTHER = ("I", "17.09.05.0.1")


class Router:
    """Shows one summary before the command and another one behind it."""

    def __init__(self, table_device, answer: str, before: str, after: str, version: str = VERSION) -> None:
        shown = {
            "show version": version,
            "install add": answer,
            "show boot": "% Invalid input detected at '^' marker.\n",
        }
        self.device = table_device(shown)
        original = self.device._answer

        def answer_of(command: str) -> str:
            if command.startswith("show install summary"):
                self.device.asked.append(command)
                return after if any(each.startswith("install add") for each in self.device.asked) else before
            return original(command)

        self.device._answer = answer_of

    @property
    def typed(self) -> list[str]:
        return [each for each in self.device.asked if each.startswith("install")]


@pytest.fixture
def router(table_device):
    def make(answer: str = ADDED, before=(OLD,), after=(OLD, NEW), **more) -> Router:
        told = [part if isinstance(part, str) else summary(*part) for part in (before, after)]
        return Router(table_device, answer, *told, **more)

    return make


def add(router: Router):
    return add_image(router.device, f"bootflash:{NAME}", WANTED)


def test_an_image_is_added_once_and_read_back(router) -> None:
    """One command; the row of the summary is what it rests on."""
    device = router()
    report = add(device)
    assert (report.outcome, report.version) == (AddOutcome.ADDED, "17.12.04a.01.79")
    assert device.typed == [f"install add file bootflash:{NAME}"]
    assert any(line.startswith("IMG   I") for line in report.lines)


@pytest.mark.parametrize(
    ("before", "outcome"), [((OLD, NEW), AddOutcome.ALREADY_ADDED), ((("C", NEW[1]),), AddOutcome.RUNS_IT)]
)
def test_what_is_there_is_not_added_again(router, before, outcome) -> None:
    """By the same release in the summary, whatever its build; nothing is typed."""
    device = router(before=before)
    assert add(device).outcome is outcome
    assert device.typed == []


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ((OLD, OTHER), "expected no other version added, found 17.09.05.0.1"),
        ((("U", "17.09.05.0.1"), ("D", OLD[1])), "waits for its commit, found 17.09.05.0.1, 17.06.03a.0.3"),
        (summary(OLD, timer="active , time before rollback - 01:57:05"), "found the abort timer"),
    ],
)
def test_somebody_elses_upgrade_is_left_alone(router, before, words) -> None:
    """Nothing is typed, and it is told whose turn it is."""
    device = router(before=before)
    with pytest.raises(InstallRefused, match=words):
        add(device)
    assert device.typed == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [(NO_ROOM, "room"), (MODIFIED, "owner's decision"), (ALREADY, "look at the device")],
)
def test_a_refusal_says_what_to_do(router, answer, words) -> None:
    """Each has its hint, and the device's own words are in the sentence."""
    with pytest.raises(InstallRefused) as refused:
        add(router(answer=answer, after=(OLD,)))
    assert words in refused.value.hint


def test_success_is_not_believed(router) -> None:
    """The device says SUCCESS and shows nothing added."""
    with pytest.raises(OutputNotUnderstood, match=r"expected 17\.12\.4a in state I"):
        add(router(after=(OLD,)))


def test_another_version_behind_the_command_is_no_success(router) -> None:
    """What was added is not what was wanted."""
    with pytest.raises(OutputNotUnderstood, match=r"found 17\.09\.05\.0\.1"):
        add(router(after=(OLD, OTHER)))


@pytest.mark.parametrize("shown", ["", "[ R0 ] Installed Package(s) Information:\n", "% Invalid input detected\n"])
def test_a_summary_that_cannot_be_read_keeps_us_from_adding(router, shown) -> None:
    """Nobody knows what is there: nothing is typed."""
    device = router(before=shown)
    with pytest.raises(OutputNotUnderstood, match="expected the packages of a device in install mode"):
        add(device)
    assert device.typed == []


def test_a_device_that_boots_from_a_file_has_nothing_to_add_to(router) -> None:
    """It is told, and no install command is given."""
    device = router(version=VERSION.replace("packages.conf", "asr1000rp2-adventerprisek9.16.03.01.SPA.bin"))
    assert add(device).outcome is AddOutcome.NOT_APPLICABLE
    assert device.typed == []
