"""The answer: whether a device is ready to boot an image, by all conditions together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flashferry.images.release import release_in
from tasks.readiness.boot import boot_variable, manual_boot, register
from tasks.readiness.conditions import images, installed, issu, members, ours, peer, saved, signature, space, timer
from tasks.readiness.values import Asked, Condition, Evidence, Met, Readiness, Verdict
from tasks.software_state import Mode, Topic

RULES: tuple[Callable[[Evidence], Iterable[Condition]], ...] = (
    *(images, signature, installed, timer, space, members, peer),
    *(boot_variable, register, manual_boot, saved, issu, ours),
)
"""All conditions, in the order of the report."""


def judge(evidence: Evidence) -> Readiness:
    """Return whether a device is ready, and what that rests on."""
    conditions = tuple(condition for rule in RULES for condition in rule(evidence))
    software = evidence.software
    return Readiness(
        verdict=_verdict(evidence, conditions),
        image=evidence.image.name,
        version=str(evidence.wanted) if evidence.wanted is not None else None,
        running=software.version.release,
        mode=software.mode.value,
        members=tuple(unit.number for unit in software.units),
        conditions=conditions,
    )


def _verdict(evidence: Evidence, conditions: tuple[Condition, ...]) -> Verdict:
    # A device that we have not left as it was is not fine, whatever it runs.
    is_ours = any(one.name is Asked.OURS and one.is_in_the_way for one in conditions)
    if not is_ours and runs_it(evidence, conditions):
        return Verdict.RUNS_IT
    found = {one.met for one in conditions}
    if Met.NOT_MET in found:
        return Verdict.NO
    # Should every rule find that nothing applies, nothing was proven.
    proven = any(one.name is Asked.IMAGE and one.met is Met.MET for one in conditions)
    return Verdict.YES if proven and Met.UNKNOWN not in found else Verdict.UNKNOWN


def runs_it(evidence: Evidence, conditions: Iterable[Condition]) -> bool:
    """Return whether the device runs the image already: by its release and packages, or by its proven file."""
    software, wanted = evidence.software, evidence.wanted
    if software.mode is Mode.INSTALL:
        committed, pending = software.versions("C"), software.versions("U", "D")
        return (
            wanted is not None
            and release_in(software.version.release) == wanted
            and not evidence.is_other_feature_set
            and len(committed) == 1
            and release_in(committed[0]) == wanted
            and not pending
            and (software.timer is None or software.timer.state == "inactive")
            and software.answers[Topic.INSTALL].is_read
            and not software.lacking(committed[0], "C")
            and all(release_in(member.version) == wanted for member in software.version.members)
        )
    if software.mode is not Mode.BUNDLE or software.running_file is None or not evidence.held:
        return False
    running = release_in(software.version.release)
    if wanted is not None and running is not None and running != wanted:
        # The file was replaced under the name of what runs.
        return False
    path = f"{evidence.held[0].file_system}{evidence.image.name}"
    proven = all(one.met is Met.MET for one in conditions if one.name is Asked.IMAGE)
    return evidence.names.same_file(path, software.running_file) and proven
