"""The judge: looks behind the router's back and compares with what was said. Pure.

Four judgements: (1) every device is what it was, but for what others did, or a journal holds it and the exit code says
so; (2) nothing false is called done or restored; (3) no secret is out; (4) nothing of anybody's is destroyed, nothing
is saved, and nothing is typed into a question that was not the one seen. A case without behaviours is held to more: it
must come out well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tests.adversary.finding import Ending, Finding, Held, Said
from tests.adversary.router.device import DeviceSight
from tests.adversary.router.storage import FileSight


class Judgement(IntEnum):
    """Which one."""

    CALM = 0
    RESTORED = 1
    TRUE = 2
    SECRET = 3
    INTACT = 4


MEANINGS = {
    Judgement.CALM: "a case without behaviours comes out well",
    Judgement.RESTORED: "equal to the start, or held in the journal and reported",
    Judgement.TRUE: "nothing false called done",
    Judgement.SECRET: "no secret out",
    Judgement.INTACT: "nothing destroyed",
}

_DONE = frozenset({"done", "already there"})
_RESTORED = "restored"
_UNTOUCHED = "untouched"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What a terminal acts upon; line ends and tabs are text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Something that is not as it must be."""

    judgement: Judgement
    sentence: str

    def __str__(self) -> str:
        """Return it in a line."""
        return f"({int(self.judgement)}) {self.sentence}"


def complaints(found: Finding) -> tuple[Complaint, ...]:
    """Return what is not as it must be; nothing where all is well."""
    judged = (
        (Judgement.RESTORED, _unrestored(found)),
        (Judgement.TRUE, _untrue(found)),
        (Judgement.SECRET, (f"{leak}" for leak in found.leaks)),
        (Judgement.INTACT, _destroyed(found)),
        (Judgement.CALM, _not_calm(found)),
    )
    sentences = dict.fromkeys((judgement, sentence) for judgement, all_ in judged for sentence in all_)
    return tuple(Complaint(judgement=judgement, sentence=sentence) for judgement, sentence in sentences)


# (1) Every device is what it was, or held and told.


def _unrestored(found: Finding) -> Iterator[str]:
    for said in found.said:
        if said.ending is Ending.HUNG:
            yield f"{_who(said)} did not come to an end: nothing is told, and nobody knows what the device is"
        elif said.acts and said.ending is Ending.ENDED and said.code == 0:
            for device in said.after:
                if (what := left_of_ours(device)) and is_held(device, said.held):
                    yield f"{_who(said)}: exit code 0, though its journal holds {device.name}, which differs: {what}"
    for device in found.at_the_end:
        what = left_of_ours(device)
        if what and not is_held(device, found.held):
            yield f"{device.name} differs from what it was, and no journal holds it: {what}"
        yield from _untold(found, device)
    for said in found.said:
        if said.verb == "recover" and not said.decides:
            for device in said.after:
                was_held = is_held(device, said.copy_held_before)
                if was_held and not is_held(device, said.held) and (what := left_of_ours(device)):
                    yield f"{_who(said)}: a copied journal let go of {device.name}, undecided, which differs: {what}"


def _untold(found: Finding, device: DeviceSight) -> Iterator[str]:
    """What others made last while our lines were there cannot be undone by us, but has to be told."""
    if is_held(device, found.held):
        return
    saved = difference(device.expected_startup, device.startup)
    if saved and not _is_told(found, "startup"):
        yield f"{device.name}: the startup configuration has lines of ours, and nobody tells: {saved}"
    for archived in device.archived_ours:
        if not _is_told(found, "archive"):
            yield f"{device.name}: {archived.name} was archived with lines of ours, and nobody tells: {archived.ours}"


def _is_told(found: Finding, word: str) -> bool:
    """Tell whether a command that found something wrong says so in words, or by a mark of that name."""
    told = (said for said in found.said if said.ending is Ending.ENDED and said.code != 0)
    return any(_mentions(record, word) for said in told for record in said.records)


def _mentions(value: Any, word: str, key: str = "") -> bool:
    if isinstance(value, dict):
        # What was there at the beginning tells nothing of what happened since.
        return any(_mentions(one, word, name) for name, one in value.items() if name != "check")
    if isinstance(value, list):
        return any(_mentions(one, word, key) for one in value)
    if isinstance(value, str):
        return word in value.lower()
    return value is True and word in key


# (2) Nothing false is called done.


def _untrue(found: Finding) -> Iterator[str]:
    for said in found.said:
        for record in said.records:
            yield from _false_copy(found, said, record)
            yield from _false_restore(found, said, record)
        for place, text in (("standard output", said.stdout), ("standard error", said.stderr)):
            if (control := _CONTROL.search(text)) is not None:
                yield f"{_who(said)}: {control[0]!r} reaches {place}: a device may write over what the operator reads"


def _false_copy(found: Finding, said: Said, record: dict[str, Any]) -> Iterator[str]:
    if said.verb in {"stage", "resume"} and record.get("outcome") in _DONE:
        claim = f"outcome '{record['outcome']}'"
    elif said.verb == "check" and (record.get("check") or {}).get("already_there"):
        claim = "'already there'"
    else:
        return
    device = _meant(said.after, record)
    file = file_at(device, _path_of(record, said.image))
    if file is None or file.sha512 != found.images[said.image]:
        what = "no such file" if file is None else f"{file.size_bytes} bytes that are not the image"
        yield f"{_who(said)}: {claim}, but on {device.name} there is {what} at {_path_of(record, said.image)}"


def _false_restore(found: Finding, said: Said, record: dict[str, Any]) -> Iterator[str]:
    restored = record.get("restored")
    if restored not in {_RESTORED, _UNTOUCHED} or not said.is_alone:
        return
    device, before = _meant(said.after, record), _meant(said.before, record)
    if restored == _RESTORED:
        what = left_of_ours(device)
        if what and not _was_so(before, device) and not _was_held_so(found, said, record, device):
            yield f"{_who(said)}: '{restored}', but {device.name} differs: {what}"
            return
        last = [one for one in found.said if one.acts and one.ending is not Ending.KILLED][-1:]
        at_the_end = next(one for one in found.at_the_end if one.name == device.name)
        if last == [said] and not what and (late := left_of_ours(at_the_end)):
            yield f"{_who(said)}: '{restored}', but half a minute later {device.name} differs: {late}"
    elif left_of_ours(device) and device.configured > before.configured and not _was_so(before, device):
        # One that was never configured by this command may differ by a timer that an earlier one has to answer for.
        yield f"{_who(said)}: '{restored}', but it left on {device.name}: {left_of_ours(device)}"


def _was_so(before: DeviceSight, after: DeviceSight) -> bool:
    """Tell whether what differs did so before this command: an earlier one, killed, left it."""
    was = Counter(before.running) - Counter(before.expected)
    now = Counter(after.running) - Counter(after.expected)
    return bool(was) and was == now


def _was_held_so(found: Finding, said: Said, record: dict[str, Any], after: DeviceSight) -> bool:
    """Tell whether a device differed so when the run began that a recovery restores, for another journal to decide."""
    if said.verb != "recover":
        return False
    earlier = found.said[: found.said.index(said)]
    runs = [one for one in earlier if one.controller == said.controller and one.verb in {"stage", "probe", "resume"}]
    began = runs[-1] if runs else None
    if began is None or not is_held(after, began.held_before) or not is_held(after, found.held):
        return False
    return _was_so(_meant(began.before, record), after)


# (4) Nothing is destroyed.


def _destroyed(found: Finding) -> Iterator[str]:
    for said in found.said:
        if said.verb == "recover" and said.copy_held_before:
            yield from _typed_by_copy(said)
    for device in found.at_the_end:
        for asked in device.asked:
            if asked.answer is None:
                continue
            typed = f"{device.name}: {_shown(asked.answer)} was typed into {asked.text.strip()!r}"
            if asked.effect:
                yield f"{typed}: {asked.effect}"
            if not asked.is_known:
                yield f"{typed}, to which nobody has an answer"
            if not asked.was_seen:
                yield f"{typed} before it was asked"
        for command in device.written:
            yield f"{device.name}: {command!r} was given"
        for path, file in device.guarded.items():
            yield from _lost_file(device, path, file)
        yield from _lost_work(device)


def _typed_by_copy(said: Said) -> Iterator[str]:
    """A journal that is a copy knows nothing of what came since; its word alone has nothing typed."""
    runs = [f"flashferry-{record.get('run_id', '')}" for record in said.records]
    for before, after in zip(said.before, said.after, strict=True):
        if after.configured == before.configured:
            continue
        marks = [line.split()[2] for line in before.running if line.startswith("alias exec flashferry-")]
        # A device may keep the beginning of a name alone.
        others = [mark for mark in marks if not any(run.startswith(mark) for run in runs)]
        if others:
            yield f"{_who(said)}: a copied journal typed on {after.name}, which {others[0]} has in its hands"
        elif said.decides != "--device-is":
            yield f"{_who(said)}: a copied journal typed on {after.name}, and nothing was decided"


def _shown(answer: str) -> str:
    return repr(answer) if answer else "Enter"


def _lost_file(device: DeviceSight, path: str, file: FileSight) -> Iterator[str]:
    present = device.files.get(path)
    if present is None:
        yield f"{device.name}: {path} of {file.owner.value} is gone"
    elif present.sha512 != file.sha512:
        yield f"{device.name}: {path} of {file.owner.value} has other contents"


def _lost_work(device: DeviceSight) -> Iterator[str]:
    """Lines of others that are not there any more; those that ours stand in for come back with the restore."""
    missing = Counter(device.expected) - Counter(device.running)
    ours = Counter(device.running) - Counter(device.expected)
    for line in missing:
        if not any(_keyword(line) == _keyword(one) for one in ours):
            yield f"{device.name}: the line {line!r} is lost"


def _keyword(line: str) -> str:
    words = line.removeprefix("no ").split()
    return " ".join(words[:3])


# A case without behaviours.


def _not_calm(found: Finding) -> Iterator[str]:
    if not found.is_calm:
        return
    for said in found.said:
        if said.ending is not Ending.ENDED or not said.is_alone or said.code == 130:
            continue
        if said.verb == "stage" and not said.held_before:
            bad = [one for one in said.records if one.get("outcome") not in _DONE]
            if said.code != 0 or bad or not said.records:
                yield f"{_who(said)}: exit code {said.code}, {[one.get('failure') for one in bad]}"
        elif said.verb == "recover" and said.code != 0 and not said.copy_held_before and not said.decides:
            yield f"{_who(said)}: exit code {said.code}"


# What is asked of a sight.


def left_of_ours(device: DeviceSight) -> str:
    """Return how the running configuration differs from what it would be without us; empty where it does not."""
    return difference(device.expected, device.running)


def difference(expected: tuple[str, ...], present: tuple[str, ...]) -> str:
    """Return what is more and what is less, in a few words; empty where both are equal."""
    more, less = Counter(present) - Counter(expected), Counter(expected) - Counter(present)
    words = [*(f"+{line!r}" for line in more), *(f"-{line!r}" for line in less)]
    if not words and expected != present:
        return "the same lines in another order"
    return ", ".join(words[:6]) + (f" and {len(words) - 6} more" if len(words) > 6 else "")


def is_held(device: DeviceSight, held: tuple[Held, ...]) -> bool:
    """Tell whether a journal holds this very device; an entry without identity counts for any."""
    return any(not one.identity or _names(one.identity, device) for one in held)


def _names(identity: str, device: DeviceSight) -> bool:
    if not any(serial in identity for serial in device.serials):
        return False
    return not device.shares_serial or identity.rpartition("/")[2].endswith(device.hostnames)


def file_at(device: DeviceSight, path: str) -> FileSight | None:
    """Return the file that a path leads to now."""
    prefix, _, name = path.partition(":")
    flash = device.default_flash if prefix in device.aliases else prefix
    return device.files.get(f"{flash}:{name.lstrip('/')}")


def _meant(devices: tuple[DeviceSight, ...], record: dict[str, Any]) -> DeviceSight:
    """Return the device that a record speaks of, by the serial number that it was checked with."""
    facts = (record.get("check") or {}).get("facts") or {}
    serial = re.sub(r"[^\w-]", "", str(facts.get("serial_number", "")))
    hostname = str(facts.get("hostname", ""))
    fitting = [one for one in devices if serial in one.serials]
    named = [one for one in fitting if f"hostname {hostname}" in one.expected]
    return (named or fitting or list(devices))[0]


def _path_of(record: dict[str, Any], image: str) -> str:
    """Return where the record says that the image is."""
    for proof in (record.get("verify"), (record.get("check") or {}).get("proof"), record.get("pull")):
        if proof and (path := proof.get("path") or proof.get("target")):
            return str(path)
    return f"{(record.get('check') or {}).get('file_system', 'flash:')}{image}"


def _who(said: Said) -> str:
    return f"{said.verb} of {said.controller}"
