"""The commands that restart a device into another image, each sent once.

`install activate` with the timer that restores the old image, and `reload`. Both end with the session: losing it is
expected, and says nothing of what the device boots, which is read once it answers again.

Facts
-----

* `install activate auto-abort-timer N prompt-level none` asks nothing; N is 30 to 1200 minutes. `Install will reload
  the system now!` and `SUCCESS: install_activate` come right before the session ends (log of three C8000V).
* `reload` asks `System configuration has been modified. Save? [yes/no]: ` if something is not saved. That question is
  never answered: what is not saved is not ours. If we disconnect there, the device is not restarted.
* It then asks `Proceed with reload? [confirm]`; a stack prints first that the whole stack is reloaded.
* With a second supervisor it asks `This will reload the active unit and force a switch of activity [confirm]`: the
  other one takes over with the image that it runs. That is no activation, and not confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from flashferry.devices.dialogue import Dialogue, PromptWait, Question, WaitLimits
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable, InstallRefused, OutputNotUnderstood
from flashferry.devices.session import DeviceSession
from tasks.add import InstallAnswer, InstallOutcome, run_install

STEP = "activate"
RELOAD_LIMIT_S = 60.0
"""After the confirmation the session ends within seconds."""

_PROCEED = Question(name="proceed", pattern=re.compile(r"Proceed with reload\? ?\[confirm\]"), answer="\n")


class Restarting(Struct, frozen=True, kw_only=True):
    """The device accepted the command and is restarting."""

    command: str
    lines: tuple[str, ...] = ()


def activate_added(
    session: DeviceSession, *, timer_min: int, notify: Callable[[str], None] = lambda _: None
) -> Restarting:
    """Have a device in install mode activate the added image, and follow it until the session ends.

    After `timer_min` minutes the device restores the old image unless the new one is committed.

    Raises:
        InstallRefused: The device does not activate now, and prints why; its prompt is back.
        OutputNotUnderstood: It prints nothing known, or a limit was reached.
    """
    command = session.platform.activate_command(timer_min)
    lines: list[str] = []

    def keep(line: str) -> None:
        lines.append(line)
        notify(line)

    try:
        answer = run_install(session, command, step=STEP, report=keep)
    except DeviceUnreachable:
        return Restarting(command=command, lines=tuple(lines[-_SHOWN_LINES:]))
    if answer.outcome is InstallOutcome.DONE:
        # The prompt came back briefly; the restart follows.
        session.abandon()
        return Restarting(command=command, lines=answer.lines)
    raise _refusal(session.name, answer)


def commit_active(session: DeviceSession, *, notify: Callable[[str], None] = lambda _: None) -> InstallAnswer:
    """Commit the running image, which ends the timer.

    Raises:
        OutputNotUnderstood: The device asks something, or a limit was reached.
        DeviceUnreachable: The session was lost. In both cases `show install summary` shows whether it is committed.
    """
    return run_install(session, session.platform.commands.install_commit, step="commit", report=notify)


def reload_device(session: DeviceSession) -> Restarting:
    """Restart a device whose configuration is saved, and wait until the session ends.

    Raises:
        DeviceRefused: It asks whether to save, or to switch over; nothing was answered, and it is not restarted.
        OutputNotUnderstood: It asks something else, or does not restart.
    """
    command = session.platform.commands.reload
    dialogue = Dialogue(prompt_pattern=session.prompt_pattern, questions=(_PROCEED,))
    limits = WaitLimits(total_s=RELOAD_LIMIT_S, end="end of the session")
    hint = "Check the device's console: it may still restart"
    wait = PromptWait(dialogue, command, limits, host=session.name, step=STEP, hint=hint)

    def check() -> None:
        _check_left_open(session.name, command, dialogue.since_answer.rstrip(" "))
        wait.check()

    try:
        session.converse(command, dialogue, check)
    except DeviceUnreachable:
        if not dialogue.answered:
            raise
        return Restarting(command=command, lines=tuple(dialogue.text.split("\n")[-_SHOWN_LINES:]))
    raise OutputNotUnderstood(
        f"'{command}': expected the session to end, found the prompt",
        host=session.name,
        step=STEP,
        hint="Look at the device: it may still restart",
    )


_SHOWN_LINES = 6
_LEFT_OPEN = (
    (
        re.compile(r"Save\? \[yes/no\]: ?\Z"),
        "it asks whether to save a configuration that was changed meanwhile, which is its owner's to say",
    ),
    (
        re.compile(r"force a switch of activity ?\[confirm\]\Z"),
        "it would switch over to the other supervisor, which runs the old image",
    ),
)


def _check_left_open(host: str, command: str, shown: str) -> None:
    """Refuse a question that must not be answered, as soon as it is asked."""
    for pattern, why in _LEFT_OPEN:
        if pattern.search(shown + " ") or pattern.search(shown):
            raise DeviceRefused(
                f"'{command}': {why}; nothing was answered, and it was not restarted",
                host=host,
                step=STEP,
                hint="Check the device, and ask again whether it is ready ('flashferry ready')",
            )


def _refusal(host: str, answer: InstallAnswer) -> Exception:
    said = answer.words
    if answer.outcome is InstallOutcome.UNKNOWN:
        return OutputNotUnderstood(
            f"'{answer.command}': expected a restart, the device said: {said}",
            host=host,
            step=STEP,
            hint="Look at the packages that it shows before anything else",
        )
    return InstallRefused(
        f"'{answer.command}': {said}", host=host, step=STEP, hint=_HINTS.get(answer.outcome, _NOTHING_HAPPENED)
    )


_NOTHING_HAPPENED = "It runs what it ran. Look at the device's lines, then ask 'flashferry ready' again"
_HINTS = {
    InstallOutcome.CONFIGURATION_MODIFIED: "The running configuration is not the saved one any more. Saving is its "
    "owner's decision; it runs what it ran",
    InstallOutcome.IN_PROGRESS: "Another install operation is going on; it runs what it ran",
    InstallOutcome.PENDING_COMMIT: "Another activation waits for its commit; have that ended first",
}
