"""Exit codes and their meaning; the table in the documentation is generated from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from flashferry.model.states import Outcome, Restored

if TYPE_CHECKING:
    from flashferry.model.record import RunReport


class ExitCode(IntEnum):
    """Exit codes; the most severe result of a run decides."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    DEVICES_FAILED = 3
    REFUSED = 4
    RESTORE_INCOMPLETE = 5
    UNFINISHED = 6
    LAB = 7
    CLEANUP = 8
    APPROVAL = 9
    SERVICE = 10
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """Return the meaning in a few words, for `stage`."""
        return _MEANINGS[self]

    def meaning_for(self, verb: str) -> str:
        """Return the meaning for a command.

        Args:
            verb: As in the `schema` of its result: `check`, `run-list`, `lab-sweep`.
        """
        known = VERB_MEANINGS.get(verb) or VERB_MEANINGS.get(verb.partition("-")[0], {})
        return known.get(self) or self.meaning


_MEANINGS = {
    ExitCode.OK: "all devices are done, or a rule of the plan leaves them as they are",
    ExitCode.INTERNAL: "a fault of flashferry itself",
    ExitCode.USAGE: "wrong options or input; nothing was touched",
    ExitCode.DEVICES_FAILED: "some devices failed",
    ExitCode.REFUSED: "some devices were refused by the check, none failed",
    ExitCode.RESTORE_INCOMPLETE: "a device's configuration is not proven to be what it was; the report says why",
    ExitCode.UNFINISHED: "some devices were interrupted or not started, none failed; go on with 'stage --resume RUN'",
    ExitCode.LAB: "the lab of a night could not be used; nothing is said about the tool or the devices",
    ExitCode.CLEANUP: "a night left a lab running; 'flashferry nightly reap'",
    ExitCode.APPROVAL: "the plan needs an approval at the service; nothing was started",
    ExitCode.SERVICE: "the service could not be asked, or did not answer as agreed; what it has started goes on there",
    ExitCode.INTERRUPTED: "interrupted by the operator; no device was left changed",
}

_NOTHING_CHANGED = "interrupted by the operator; nothing was changed"
_JOURNAL_READ = {
    ExitCode.OK: "the journal was read",
    ExitCode.DEVICES_FAILED: "the journal could not be read",
    ExitCode.RESTORE_INCOMPLETE: "the journal cannot be used; what is left to recover is not known",
    ExitCode.INTERRUPTED: _NOTHING_CHANGED,
}
_STUDY = {
    ExitCode.OK: "what was to be run in the lab is run and written down",
    ExitCode.DEVICES_FAILED: "some runs in the lab failed",
    ExitCode.INTERRUPTED: "interrupted by the operator; the same command goes on where it was",
}
VERB_MEANINGS: Mapping[str, Mapping[ExitCode, str]] = {
    "check": {
        ExitCode.OK: "all devices can be staged, or have the image; nothing was changed",
        ExitCode.DEVICES_FAILED: "some devices could not be checked, or could not fetch from us",
        ExitCode.REFUSED: "some devices were refused: they cannot be staged as they are; none failed",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "ready": {
        ExitCode.OK: "all devices are ready to boot their images, or run them; nothing was changed",
        ExitCode.DEVICES_FAILED: "some devices could not be checked; nothing was changed",
        ExitCode.REFUSED: "some devices are not ready, or that is unknown; nothing was changed",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "activate": {
        ExitCode.OK: "all devices run their images, and do what they did before",
        ExitCode.DEVICES_FAILED: "some devices do not run their image as they should; the report says what each runs",
        ExitCode.REFUSED: "some devices were refused: they are not ready, and were not restarted; none failed",
        ExitCode.RESTORE_INCOMPLETE: "what some devices run is unknown; 'flashferry recover' finds out",
        ExitCode.UNFINISHED: "some devices were not started, none failed",
        ExitCode.INTERRUPTED: "interrupted by the operator; what was restarted was followed to its end",
    },
    "clean": {
        ExitCode.OK: "all confirmed files are deleted and gone, or were only shown, or there were none",
        ExitCode.DEVICES_FAILED: "some devices failed; the result lists what was deleted there",
        ExitCode.REFUSED: "for some devices it is unknown what can be deleted, or they may not be touched; none failed",
        ExitCode.UNFINISHED: "some devices were not confirmed; nothing was deleted there",
        ExitCode.INTERRUPTED: "interrupted by the operator; the result lists what was deleted",
    },
    "probe": {
        ExitCode.OK: "all devices were timed, and are as they were",
        ExitCode.DEVICES_FAILED: "some devices could not be timed",
        ExitCode.UNFINISHED: "some devices were interrupted or not started, none failed",
    },
    "pilot": {
        ExitCode.OK: "all steps are done; the router is as it was, but for the file of the copy",
        ExitCode.DEVICES_FAILED: "a step failed; the router is as it was",
        ExitCode.REFUSED: "the router was refused by the check; nothing was changed",
        ExitCode.RESTORE_INCOMPLETE: "the router is not proven to be what it was; 'flashferry recover' finishes",
        ExitCode.UNFINISHED: "some steps were declined or interrupted; the router is as it was",
        ExitCode.INTERRUPTED: "interrupted by the operator; the router is as it was",
    },
    "plan": {
        ExitCode.OK: "all devices are in the plan, or need nothing; 'late' says whether it fits",
        ExitCode.DEVICES_FAILED: "some devices could not be reached to plan for them",
        ExitCode.REFUSED: "some devices were refused: they cannot be staged as they are; the plan leaves them out",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "dry-run": {
        ExitCode.OK: "all devices could be staged as shown, or have the image; nothing was changed",
        ExitCode.DEVICES_FAILED: "some devices could not be checked; nothing was changed",
        ExitCode.REFUSED: "some devices would be refused, none failed; nothing was changed",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "recover": {
        ExitCode.OK: "nothing is left to recover of what was asked for",
        ExitCode.DEVICES_FAILED: "some devices could not be recovered",
        ExitCode.RESTORE_INCOMPLETE: "some devices are not proven to be what they were; 'flashferry recover' again",
    },
    "status": {
        **_JOURNAL_READ,
        ExitCode.OK: "the journal was read; see 'needs_recovery'",
    },
    "run-list": _JOURNAL_READ,
    "run": _JOURNAL_READ,
    "history": _JOURNAL_READ,
    "run-control": {
        ExitCode.OK: "the run has the request",
        ExitCode.RESTORE_INCOMPLETE: "the journal cannot be used; the run does not have the request",
        ExitCode.INTERRUPTED: "interrupted by the operator",
    },
    "report": {
        ExitCode.OK: "the report is written; with --check, everything in it is as it must be",
        ExitCode.DEVICES_FAILED: "--check: something is not as it must be, or is unknown",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "serve": {
        ExitCode.OK: "the server ended when it was asked to",
        ExitCode.DEVICES_FAILED: "the server's process ended by itself; what it was sending was cut",
    },
    "depot": {
        ExitCode.OK: "the depot ended when it was asked to",
        ExitCode.DEVICES_FAILED: "the depot's server ended by itself; what it was sending was cut",
    },
    "depot-sync": {
        ExitCode.OK: "all images that were asked for are in the catalogue, proven to the byte",
        ExitCode.DEVICES_FAILED: "some images are not proven; what is verified of them is kept, sync again",
        ExitCode.INTERRUPTED: "interrupted by the operator; what is verified is kept, the same command goes on",
    },
    "depot-list": {
        ExitCode.OK: "the catalogue was read",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "depot-verify": {
        ExitCode.OK: "what was read is what was proven; 'state' says what could not be compared",
        ExitCode.DEVICES_FAILED: "some images are damaged or missing; damaged ones have lost their names, sync again",
        ExitCode.INTERRUPTED: "interrupted by the operator; what was not read is as it was",
    },
    "depot-probe": {
        ExitCode.OK: "the path was measured and its best way is kept, or what is known was shown",
        ExitCode.DEVICES_FAILED: "no way of copying worked over the path; nothing is kept",
        ExitCode.INTERRUPTED: "interrupted by the operator; nothing is kept",
    },
    "images": {ExitCode.OK: "the images were read", ExitCode.INTERRUPTED: _NOTHING_CHANGED},
    "service": {
        ExitCode.OK: "the service ended when it was asked to, or did what was asked; the audit has it",
        ExitCode.USAGE: "wrong options or input, or the service refused it; nothing was changed",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "service-audit": {
        ExitCode.OK: "the audit is whole",
        ExitCode.DEVICES_FAILED: "the audit is not whole",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "sites": {
        ExitCode.OK: "what was asked for is done, or the agent ended when it was asked to",
        ExitCode.USAGE: "wrong options or configuration, or another agent works for the site; nothing was changed",
        ExitCode.INTERRUPTED: "ended at once; runs under way go on by themselves",
    },
    "sites-control": {
        ExitCode.OK: "the sites have the request, or get it once they are connected",
        ExitCode.INTERRUPTED: "interrupted by the operator; the result lists the sites that have the request",
    },
    "sites-list": {ExitCode.OK: "sites and agents are shown", ExitCode.INTERRUPTED: _NOTHING_CHANGED},
    "sites-run": {ExitCode.OK: "the ledger was read", ExitCode.INTERRUPTED: _NOTHING_CHANGED},
    "sites-runs": {ExitCode.OK: "the ledger was read", ExitCode.INTERRUPTED: _NOTHING_CHANGED},
    "state": {
        ExitCode.OK: "the state folder was looked after as asked for",
        ExitCode.USAGE: "wrong options, or the folder or the backup will not do; nothing was changed",
        ExitCode.INTERRUPTED: "interrupted by the operator; what was there is there still",
    },
    "state-check": {
        ExitCode.OK: "all databases are whole",
        ExitCode.DEVICES_FAILED: "a database is damaged",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "init": {
        ExitCode.OK: "the inventory is written, and was read again",
        ExitCode.USAGE: "wrong options or input, or a file is there already; nothing was written",
        ExitCode.INTERRUPTED: "interrupted by the operator; nothing was written",
    },
    "doctor": {
        ExitCode.OK: "this host was checked; 'is_good' says of each finding whether it is as it should be",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "nightly": {
        ExitCode.OK: "the night was played and is good; its lab is gone",
        ExitCode.DEVICES_FAILED: "the tool failed in the night, or was slower than in the nights before",
        ExitCode.REFUSED: "a device of the lab could not be used: no SSH, no licence, refused by the check",
        ExitCode.LAB: "the lab could not be used; nothing is said about the tool or the devices",
        ExitCode.CLEANUP: "a lab was left running, whatever else the night found; 'flashferry nightly reap'",
        ExitCode.INTERRUPTED: "interrupted by the operator; the lab is gone",
    },
    "nightly-init": {
        ExitCode.OK: "the description is written, or is as it must be",
        ExitCode.USAGE: "the description was not written, or is wrong; nothing was touched",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "nightly-history": {
        ExitCode.OK: "the nights were read; no lab was touched",
        ExitCode.INTERRUPTED: _NOTHING_CHANGED,
    },
    "nightly-reap": {
        ExitCode.OK: "nothing that a dead night left is there any more; others' labs were left alone",
        ExitCode.LAB: "the controller could not be asked; nothing is said about what is left",
        ExitCode.CLEANUP: "a lab of a dead night could not be removed; the next reaping tries again",
        ExitCode.INTERRUPTED: "interrupted by the operator; what was not removed yet is left",
    },
    "nightly-record": {
        ExitCode.OK: "what the controller answers is written down; 'differences' says what was not known",
        ExitCode.LAB: "the controller could not be asked; nothing was written",
        ExitCode.CLEANUP: "the lab that was made to ask more could not be removed; 'flashferry nightly reap'",
        ExitCode.INTERRUPTED: "interrupted by the operator; was a lab made, 'flashferry nightly reap' removes it",
    },
    "lab": {ExitCode.OK: "the lab is up", ExitCode.INTERRUPTED: "interrupted by the operator; the lab is gone"},
    "lab-exec": {ExitCode.OK: "the command was run; 'command_exit_code' is its own"},
    "lab-experiment": _STUDY,
    "lab-experiment-ssh": _STUDY,
    "lab-experiment-bulk": _STUDY,
    "lab-sweep": _STUDY,
    "lab-fairness": _STUDY,
    "lab-peers": _STUDY,
}
"""Meanings that differ from those for `stage`, by command."""


def exit_code(outcomes: Iterable[Outcome], *, restored: Iterable[Restored] = (), interrupted: bool = False) -> ExitCode:
    """Return the code for devices; a configuration that is not proven restored outweighs everything else."""
    if set(restored) & {Restored.INCOMPLETE, Restored.FOREIGN_CHANGE}:
        return ExitCode.RESTORE_INCOMPLETE
    if interrupted:
        return ExitCode.INTERRUPTED
    found = set(outcomes)
    if Outcome.ERROR in found:
        return ExitCode.INTERNAL
    if Outcome.FAILED in found:
        return ExitCode.DEVICES_FAILED
    if found & {Outcome.INTERRUPTED, Outcome.NOT_STARTED}:
        return ExitCode.UNFINISHED
    return ExitCode.REFUSED if Outcome.REFUSED in found else ExitCode.OK


def run_exit_code(report: RunReport) -> ExitCode:
    """Return the code for a run; devices that its plan excludes do not count."""
    return exit_code(
        (device.outcome for device in report.devices if not device.is_left_by_plan),
        restored=(device.restored for device in report.devices),
        interrupted=report.interrupted,
    )
