"""`install add` by what the device shows before and behind it, whatever it says in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.devices.errors import DeviceUnreachable, InstallFailed, InstallRefused, OutputNotUnderstood
from flashferry.images.file_name import release_of_image
from tasks.add import AddOutcome, add_image
from tests.unit.tasks.test_add_install import ADDED, ALREADY, MODIFIED, NO_ROOM

CAPTURES = Path(__file__).parents[2] / "captures" / "show_version"
NAME = "c8000v-universalk9.17.12.04a.SPA.bin"
WANTED = release_of_image(NAME)
VERSION = """\
Cisco IOS XE Software, Version 17.06.03a
System image file is "bootflash:packages.conf"
Router operating mode: Autonomous
Configuration register is 0x2102
"""
RULE = "-" * 80


def summary(*packages: tuple[str, str], timer: str = "inactive", at: str = "R0") -> str:
    rows = "".join(f"IMG   {state}    {version}\n" for state, version in packages)
    return (
        f"[ {at} ] Installed Package(s) Information:\n"
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


@pytest.mark.parametrize(
    "failure",
    [
        "FAILED: install_add exit(1)\n",
        " [1] Switch 2 FAILED: /mnt/sd3/user is not writable\n",
        "R1 FAILED: Cannot stage the package\n",
        "Add: Failed on [2]\nSUCCESS: install_add\n",
    ],
)
def test_a_failure_is_no_success_whatever_the_summary_shows(router, failure) -> None:
    """The release stands in the table, and the device says that it failed: a part of it may be missing."""
    with pytest.raises(InstallFailed, match=r"shows 17\.12\.04a\.01\.79 in state I all the same"):
        add(router(answer=failure))


BUSY = "FAILED: install_add : Another install operation is in progress. Please try again later\n"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (BUSY, InstallRefused),
        (ALREADY, InstallRefused),
        (BUSY + "FAILED: install_add exit(1)\n", InstallFailed),
        (" [2] Switch 2 FAILED: Another install operation is in progress\n", InstallFailed),
    ],
)
def test_what_another_operation_added_meanwhile_is_no_failure_of_ours(router, answer, error) -> None:
    """Refused as a whole, the command left no part; a failure beside it, or on one member, may have left some."""
    with pytest.raises(InstallRefused, match=r"shows 17\.12\.04a\.01\.79 in state I all the same") as refused:
        add(router(answer=answer))
    assert type(refused.value) is error


FAILED_BEFORE = "'install add' of it failed in run RUN1, and none was reported done since"


def test_what_an_add_that_failed_left_is_not_added_already(router) -> None:
    """The table shows it inactive, as after an add that was done; nothing is typed, and the way out is named."""
    device = router(before=(OLD, NEW))
    with pytest.raises(InstallRefused, match="failed in run RUN1") as refused:
        add_image(device.device, f"bootflash:{NAME}", WANTED, failed_before=FAILED_BEFORE)
    assert not isinstance(refused.value, InstallFailed)
    assert "'install remove inactive' discards it" in refused.value.hint
    assert device.typed == []


@pytest.mark.parametrize(("before", "outcome"), [((OLD,), AddOutcome.ADDED), ((("C", NEW[1]),), AddOutcome.RUNS_IT)])
def test_an_add_that_failed_once_is_over_where_nothing_is_left_of_it(router, before, outcome) -> None:
    """It was discarded meanwhile and is added anew, or the device boots from it for good."""
    report = add_image(router(before=before).device, f"bootflash:{NAME}", WANTED, failed_before=FAILED_BEFORE)
    assert report.outcome is outcome


def test_a_failure_that_was_read_counts_where_the_session_is_lost_after_it(router) -> None:
    """The next run is to know of it; a session that is lost without a word of it says nothing."""
    answers = {"FAILED: install_add exit(1)\n": InstallFailed, "--- Starting Add ---\n": DeviceUnreachable}
    for answer, error in answers.items():
        device = router(answer=answer)
        converse = device.device.converse

        def lose(command, dialogue, on_wait, converse=converse):
            converse(command, dialogue, on_wait)
            raise DeviceUnreachable("the session was lost")

        device.device.converse = lose
        with pytest.raises(error, match="lost"):
            add(device)


@pytest.mark.parametrize(("answer", "error"), [(NO_ROOM, InstallFailed), (MODIFIED, InstallRefused)])
def test_a_device_that_had_begun_failed_and_one_that_had_not_refused(router, answer, error) -> None:
    """Only what was begun may have left parts."""
    with pytest.raises(InstallRefused) as failed:
        add(router(answer=answer, after=(OLD,)))
    assert type(failed.value) is error


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("c8000v-universalk9.17.06.03a.CSCvz00001.SPA.smu.bin", "patch"),
        ("c8000v-universalk9.17.06.03a.SPA.apsp.bin", "service pack"),
        ("c8000v-mono-universalk9.17.06.03a.SPA.pkg", "sub-package"),
        ("c8000v-rommon.17.06.03a.SPA.pkg", "ROMMON"),
    ],
)
def test_what_is_no_image_is_never_what_runs(router, name, kind) -> None:
    """A patch of the running release carries its number: nothing is typed, and it is not "runs it already"."""
    device = router(before=(OLD,))
    with pytest.raises(InstallRefused, match=rf"expected an image, bootflash:{name} is a {kind}") as refused:
        add_image(device.device, f"bootflash:{name}", release_of_image(name))
    assert "goes its owner's way" in refused.value.hint
    assert device.typed == []


def test_the_same_release_in_another_feature_set_is_not_what_runs(router) -> None:
    """The summary prints one version for both."""
    device = router(before=(OLD,))
    name = "c8000v-universalk9_npe.17.06.03a.SPA.bin"
    with pytest.raises(InstallRefused, match=r"expected feature set npe of 17\.6\.3a, the device runs it in the full"):
        add_image(device.device, f"bootflash:{name}", release_of_image(name))
    assert device.typed == []


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


OLDER = (CAPTURES / "c3850_install_mode_3.txt").read_text()
"""A stack of four 3850s with 03.06.05E in install mode."""


def test_a_train_without_install_add_is_refused_with_its_own_command(router) -> None:
    """Nothing is typed: what it has instead would switch what boots next, and is its owner's to give."""
    device = router(version=OLDER, before="      ^\n% Invalid input detected at '^' marker.\n")
    with pytest.raises(InstallRefused, match=r"has 'install add', found 03\.06\.05E") as refused:
        add(device)
    assert f"software install file bootflash:{NAME} switch 1-4" in refused.value.hint
    assert [each for each in device.device.asked if not each.startswith(("show", "more"))] == []


def test_a_router_of_old_that_knows_no_summary_is_refused(router) -> None:
    """Only where the user may give every command: else a caret says nothing about the release."""
    caret = "      ^\n% Invalid input detected at '^' marker.\n"
    device = router(version=VERSION.replace("17.06.03a", "16.04.01"), before=caret)
    with pytest.raises(OutputNotUnderstood):
        add(device)
    device.device.answers["show privilege"] = "Current privilege level is 15\n"
    with pytest.raises(InstallRefused) as refused:
        add(device)
    assert f"request platform software package expand file bootflash:{NAME}" in refused.value.hint


def test_an_archive_for_a_switch_that_boots_from_a_file_is_refused(router) -> None:
    """A `.tar` does not boot by being copied."""
    release = "Cisco IOS Software, C2960X Software (C2960X-UNIVERSALK9-M), Version 15.2(7)E3, RELEASE SOFTWARE (fc3)"
    device = router(version=f'{release}\nSystem image file is "flash:c2960x-universalk9-mz.152-7.E3.bin"\n')
    with pytest.raises(InstallRefused) as refused:
        add_image(device.device, "flash:c2960x-universalk9-tar.152-7.E7.tar", None)
    assert "archive download-sw /leave-old-sw flash:c2960x-universalk9-tar.152-7.E7.tar" in refused.value.hint
    assert device.typed == []


STACK = VERSION + (
    "Switch Ports Model              SW Version        SW Image              Mode\n"
    "------ ----- -----              ----------        ----------            ----\n"
    "*    1 41    C9300-24T          17.06.03a         CAT9K_IOSXE           INSTALL\n"
    "     2 41    C9300-24T          17.06.03a         CAT9K_IOSXE           INSTALL\n\n"
)


def on_one(*packages: tuple[str, str]) -> str:
    """Return a summary in which member 1 has some packages, and member 2 the old one alone."""
    return summary(*packages, at="Switch 1").rpartition(f"\n{RULE}\nAuto")[0] + "\n" + summary(OLD, at="Switch 2")


BOTH = summary(OLD, at="Switch 1 2")


@pytest.mark.parametrize("answer", [ADDED, NO_ROOM])
def test_a_member_without_it_is_no_success(router, answer) -> None:
    """Added on one member alone, as where another one has no room: a failure, whatever the device says."""
    with pytest.raises((OutputNotUnderstood, InstallRefused), match="missing on 2"):
        add(router(answer, before=BOTH, after=on_one(OLD, NEW), version=STACK))


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (on_one(OLD, NEW), "missing on 2"),
        (on_one(("C", NEW[1])), "missing on 2"),
        (on_one(("C", NEW[1])).replace(f"IMG   C    {OLD[1]}", f"IMG   I    {NEW[1]}"), "missing on 1"),
        (summary(OLD, at="Switch 1"), "found none of member 2"),
        (summary(OLD, NEW, at="Switch 1"), "found none of member 2"),
    ],
)
def test_what_is_there_on_one_member_alone_is_not_there(router, before, words) -> None:
    """Neither added already nor run already; nothing is typed."""
    device = router(before=before, version=STACK)
    with pytest.raises(InstallRefused, match=words):
        add(device)
    assert device.typed == []


def test_a_stack_has_it_once_all_members_have(router) -> None:
    """Each member is told of."""
    report = add(router(before=BOTH, after=summary(OLD, NEW, at="Switch 1 2"), version=STACK))
    assert report.outcome is AddOutcome.ADDED


def test_what_somebody_else_added_is_not_ours(router) -> None:
    """The image's name tells no release, the device refuses it, and another one appears in that moment."""
    with pytest.raises(InstallRefused, match="requires"):
        add_image(router(NO_ROOM).device, f"bootflash:{NAME}", None)
