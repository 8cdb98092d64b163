"""What a device says of an install command, by texts of real ones; the lines that this rests on are told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.devices.errors import OutputNotUnderstood
from tasks.add import InstallOutcome, read_answer, run_install

ADD = "install add file bootflash:c8000v-universalk9.17.12.04a.SPA.bin"
ADDED = """\
install_add: START Mon Jun  2 21:57:01 UTC 2025
install_add: Adding PACKAGE
install_add: Checking whether new add is allowed ....

--- Starting Add ---
Performing Add on Active/Standby
  [1] Add package(s) on R0
  [1] Finished Add on R0
Checking status of Add on [R0]
Add: Passed on [R0]
Finished Add

Image added. Version: 17.12.04a.01.79
SUCCESS: install_add  Mon Jun  2 21:58:17 UTC 2025
"""
LOG = "*Jun  2 21:57:40.113: %SYS-5-CONFIG_I: Configured from console by ops on vty1 (192.0.2.9)\n"
NO_ROOM = """\
 [1] Switch 1 FAILED: /mnt/sd3/user requires 462703 KB of free space, but only 408260 KB is available
FAILED: add_activate_commit /mnt/sd3/user/X Fri Dec 13 05:25:16 GMT 2024
"""
ALREADY = (
    "install_add: Checking whether new add is allowed ....\n"
    "FAILED: install_add : Super package already added. Add operation not allowed. 'install remove inactive' can be "
    "used to discard added packages\n"
)
MODIFIED = (
    "[1]  R0 FAILED: System configuration has been modified. Please save configuration and resubmit command.\n"
    "FAILED: install_add exit(1)\n"
)


def test_an_image_that_was_added_is_told_with_its_version() -> None:
    """The log of a C8000V; the last lines are what it rests on."""
    answer = read_answer(ADD, ADDED, duration_s=76.1)
    assert (answer.outcome, answer.added_version) == (InstallOutcome.DONE, "17.12.04a.01.79")
    assert answer.lines[-1] == "SUCCESS: install_add  Mon Jun  2 21:58:17 UTC 2025"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_log_lines_and_line_ends_change_nothing(ending: str) -> None:
    """A log line between any two lines, and carriage returns, leave the outcome as it is."""
    lines = ADDED.splitlines(keepends=True)
    for at in range(len(lines) + 1):
        text = "".join((*lines[:at], LOG, *lines[at:])).replace("\n", ending)
        assert read_answer(ADD, text).outcome is InstallOutcome.DONE


@pytest.mark.parametrize(
    ("text", "outcome", "told"),
    [
        (NO_ROOM, InstallOutcome.NO_SPACE, "requires 462703 KB"),
        (ALREADY, InstallOutcome.ALREADY_ADDED, "Super package already added"),
        (MODIFIED, InstallOutcome.CONFIGURATION_MODIFIED, "Please save configuration"),
        (
            "FAILED: install_activate : Cannot perform activate operation as previous installation is pending commit\n",
            InstallOutcome.PENDING_COMMIT,
            "pending commit",
        ),
        (
            "R1 FAILED: Install ISSU in progress. Abort the ISSU upgrade to proceed\n",
            InstallOutcome.ISSU_IN_PROGRESS,
            "Abort the ISSU",
        ),
        (
            " [1] Switch 1 Add succeed with reason: SMU Already Added-No Change\nSUCCESS: install_add\n",
            InstallOutcome.ALREADY_ADDED,
            "No Change",
        ),
        ("FAILED: Activate failed in switch\n", InstallOutcome.FAILED, "Activate failed"),
        ("FAILED: No rollback file found for /tmp/sw/isos/packages.conf\n", InstallOutcome.FAILED, "No rollback"),
    ],
)
def test_refusals_are_told_apart(text: str, outcome: InstallOutcome, told: str) -> None:
    """Each by words of a device."""
    answer = read_answer(ADD, text)
    assert answer.outcome is outcome
    assert any(told in line for line in answer.lines)


def test_output_that_was_cut_is_no_success() -> None:
    """Wherever it is cut before its last line, nobody says that it is done."""
    lines = ADDED.splitlines(keepends=True)
    for at in range(len(lines)):
        assert read_answer(ADD, "".join(lines[:at])).outcome is InstallOutcome.UNKNOWN


def test_the_success_of_another_command_is_none_of_ours() -> None:
    """`SUCCESS: install_remove` says nothing about an add."""
    assert read_answer(ADD, "SUCCESS: install_remove\n").outcome is InstallOutcome.UNKNOWN


def test_progress_is_told_line_by_line(table_device) -> None:
    """Whoever watches sees what the device does, without log lines."""
    told: list[str] = []
    answer = run_install(table_device({"install add": ADDED + LOG}), ADD, step="add", report=told.append)
    assert answer.outcome is InstallOutcome.DONE
    assert "[1] Add package(s) on R0" in told
    assert not any("CONFIG_I" in line for line in told)


@pytest.mark.parametrize(
    "question",
    [
        "Do you want to proceed? [y/n]",
        "Press Quit(q) to exit, you may save configuration and re-enter the command. [y/n/q] ",
    ],
)
def test_a_question_is_left(table_device, question, monkeypatch) -> None:
    """The command asks something that we have no answer for: the error says so, and nothing is typed."""
    now_s = [0.0]
    monkeypatch.setattr("flashferry.devices.dialogue.time", SimpleNamespace(monotonic=lambda: now_s[0]))

    class Asking(type(table_device({}))):  # type: ignore[misc]
        def converse(self, command, dialogue, on_wait) -> None:
            dialogue.take(f"{command}\r\n{question}")
            now_s[0] += 60
            on_wait()

    with pytest.raises(OutputNotUnderstood, match="which we have no answer for"):
        run_install(Asking({}), ADD, step="add")


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("  [2] FAILED: Add on switch 2", InstallOutcome.FAILED),
        ("  [2]: FAILED", InstallOutcome.FAILED),
        ("  [2] Failed Add on switch 2", InstallOutcome.FAILED),
        ("  [R1] Add package(s) on R1 failed", InstallOutcome.FAILED),
        ("Add: Failed on [2]", InstallOutcome.FAILED),
        ("Failed: install_add exit(1)", InstallOutcome.FAILED),
        ("Add: Failed on [ ]", InstallOutcome.DONE),
        ("  [2] Finished Add on Switch 2", InstallOutcome.DONE),
        ("Checking whether an earlier add has failed ....", InstallOutcome.DONE),
    ],
)
def test_a_member_that_failed_is_a_failure_whatever_the_last_line_says(line, outcome):
    """One switch alone says so, in the row of its number; the others passed, and SUCCESS is the last word."""
    text = f"{line}\nAdd: Passed on [1]\nFinished Add\nImage added. Version: 17.15.03a.0.1\nSUCCESS: install_add  Sun\n"
    assert read_answer("install add file flash:x.bin", text).outcome is outcome
