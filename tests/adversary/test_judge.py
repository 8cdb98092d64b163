"""The judge can say no: each judgement is seen to fail on a planted violation, and to hold on what is right."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from flashferry.core.values import replace
from tests.adversary.finding import Ending, Finding, Held, Said
from tests.adversary.judge import Judgement, complaints, difference, file_at, is_held
from tests.adversary.router.device import Archived, DeviceSight
from tests.adversary.router.storage import FileSight, Owner
from tests.adversary.router.terminal import Asked

IMAGE = b"image" * 100
SHA512 = hashlib.sha512(IMAGE).hexdigest()
START = ("hostname r1", "ip tcp window-size 8000", "line vty 0 4")
OURS = "ip tcp selective-ack"
TUNED = ("hostname r1", OURS, "ip tcp window-size 70001", "line vty 0 4")
OTHERS_FILE = FileSight(size_bytes=616, sha512="616", owner=Owner.SYSTEM)
OUR_FILE = FileSight(size_bytes=500, sha512=SHA512, owner=Owner.COPY)
HELD = (Held(host="r1", identity="FOC1/r1"),)


def sight(**other: Any) -> DeviceSight:
    device = DeviceSight(
        name="A",
        serials=("FOC1",),
        hostnames=("r1",),
        running=START,
        expected=START,
        startup=START,
        expected_startup=START,
        files={"bootflash:vlan.dat": OTHERS_FILE, "bootflash:image.bin": OUR_FILE},
        guarded={"bootflash:vlan.dat": OTHERS_FILE},
        aliases=("bootflash", "flash"),
    )
    return replace(device, **other)


def record(**other: Any) -> dict[str, Any]:
    check = {"facts": {"serial_number": "FOC1", "hostname": "r1"}, "file_system": "bootflash:"}
    return {
        "host": "r1",
        "outcome": "done",
        "restored": "restored",
        "failure": None,
        "check": check,
        "verify": {"path": "bootflash:image.bin"},
        "restore": {"startup_changed": False},
    } | other


def said(verb: str = "stage", *, after: DeviceSight | None = None, code: int = 0, **other: Any) -> Said:
    records = other.pop("records", [record()])
    made = Said(
        controller="a",
        verb=verb,
        ending=Ending.ENDED,
        code=code,
        document={"devices": records} if verb == "recover" else {"run": {"devices": records}},
        image="image.bin",
        before=(sight(),),
        after=(after or sight(),),
    )
    return replace(made, **other)


def finding(*commands: Said, device: DeviceSight | None = None, **other: Any) -> Finding:
    made = Finding(said=commands or (said(),), at_the_end=(device or sight(),), held=(), images={"image.bin": SHA512})
    return replace(made, **other)


def broken(found: Finding) -> set[Judgement]:
    return {one.judgement for one in complaints(found)}


def asked(**other: Any) -> Asked:
    made = Asked(kind="destination", text="Destination filename [image.bin]? ", is_known=True, session=1, answer="")
    for name, value in other.items():
        setattr(made, name, value)
    return made


def test_a_run_as_it_should_be():
    """A proven copy on a restored device, with its question answered by Enter: no complaint."""
    assert complaints(finding(device=sight(asked=(asked(),)))) == ()


# (1)


def test_a_line_of_ours_that_is_left():
    """A device that differs and that no journal holds breaks the first judgement; held by one, it does not."""
    left = sight(running=TUNED)
    ended = said(code=5, records=[record(restored="incomplete")], after=left, held=HELD)
    assert broken(finding(ended, device=left)) == {Judgement.RESTORED}
    assert broken(finding(ended, device=left, held=HELD)) == set()


def test_the_same_lines_in_another_order():
    """Order is part of a configuration."""
    assert broken(finding(device=sight(running=START[::-1]))) == {Judgement.RESTORED, Judgement.TRUE}


def test_zero_though_the_journal_holds_a_device():
    """Held is not enough where the exit code says that all is well."""
    left = sight(running=TUNED)
    killed = said(ending=Ending.KILLED, code=None, document=None, after=left, held=HELD)
    again = said(records=[record(restored="untouched")], before=(left,), after=left, held=HELD)
    assert broken(finding(killed, replace(again, code=3), device=left, held=HELD)) == set()
    assert broken(finding(killed, again, device=left, held=HELD)) == {Judgement.RESTORED}


def test_what_a_journal_holds_is_one_device():
    """Another serial number, or another name where two share one, is another device; a member of a stack is not."""
    other = sight(serials=("FOC2",))
    assert is_held(sight(), HELD)
    assert not is_held(other, HELD)
    assert is_held(sight(serials=("FOC9", "FOC1")), HELD)
    assert not is_held(sight(shares_serial=True, hostnames=("r1-b",)), HELD)
    assert is_held(sight(shares_serial=True), HELD)
    assert is_held(other, (Held(host="r1", identity=""),))


def test_lines_of_ours_in_startup_have_to_be_told():
    """A colleague saved them: nothing is written by us, so it must be said, in a mark or in words."""
    device = sight(startup=TUNED)
    quiet = said(after=device)
    marked = said(code=5, records=[record(restored="other", restore={"startup_changed": True})], after=device)
    worded = said(
        code=5, records=[record(restored="other", notes=["the Startup configuration holds ..."])], after=device
    )
    assert broken(finding(quiet, device=device)) == {Judgement.RESTORED}
    assert broken(finding(marked, device=device)) == set()
    assert broken(finding(worded, device=device)) == set()


def test_an_archive_with_our_lines_has_to_be_told():
    """Whoever replaces the configuration by that archive brings our lines back."""
    device = sight(archived_ours=(Archived(name="flash:saved-0", ours=(OURS,)),))
    told = said(
        code=5, records=[record(restored="other", notes=["flash:saved-0 was archived meanwhile"])], after=device
    )
    assert broken(finding(said(after=device), device=device)) == {Judgement.RESTORED}
    assert broken(finding(told, device=device)) == set()


def test_what_a_journal_holds_is_told_later():
    """Nothing has to be told of a device that is still to be recovered: recovery will find it."""
    device = sight(running=TUNED, startup=TUNED, archived_ours=(Archived(name="flash:saved-0", ours=(OURS,)),))
    killed = said(ending=Ending.KILLED, code=None, document=None, after=device)
    assert broken(finding(killed, device=device, held=HELD)) == set()


def test_a_command_that_does_not_end():
    """Whoever waits for ever tells nothing."""
    assert broken(finding(said(ending=Ending.HUNG, code=None, document=None))) == {Judgement.RESTORED}


# (2)


@pytest.mark.parametrize("outcome", ["done", "already there"])
@pytest.mark.parametrize(
    "files",
    [
        {},
        {"bootflash:image.bin": replace(OUR_FILE, sha512="another")},
        {"bootflash:other.bin": OUR_FILE},
    ],
)
def test_a_false_done(outcome: str, files: dict[str, FileSight]):
    """Done means that the bytes at the target have the image's hash, by the judge's own eyes."""
    device = sight(files=files | {"bootflash:vlan.dat": OTHERS_FILE})
    found = finding(said(records=[record(outcome=outcome)], after=device), device=device)
    assert broken(found) == {Judgement.TRUE}


def test_done_on_another_device():
    """A record speaks of the device that was checked, not of the one that answered later."""
    empty = sight(files={"bootflash:vlan.dat": OTHERS_FILE})
    other = sight(name="B", serials=("FOC2",))
    assert broken(finding(said(after=empty), device=empty)) == {Judgement.TRUE}
    assert broken(replace(finding(said(after=other)), said=(replace(said(), after=(empty, other)),))) == {
        Judgement.TRUE
    }


def test_a_false_already_there_of_a_check():
    """A check's word counts like a run's."""
    device = sight(files={"bootflash:vlan.dat": OTHERS_FILE})
    check = record()["check"] | {"already_there": True}
    found = finding(said("check", records=[{"outcome": "done", "check": check}], after=device), device=device)
    assert broken(found) == {Judgement.TRUE}


def test_a_false_restored():
    """A device that was called restored and is not, whatever a journal holds."""
    left = sight(running=TUNED)
    found = finding(said(code=5, after=left, held=HELD), said("recover", records=[]), held=HELD)
    assert broken(found) == {Judgement.TRUE}


def test_restored_that_does_not_stay():
    """A timer that fires half a minute later undoes what was called restored."""
    late = sight(running=TUNED)
    assert broken(finding(device=late, held=HELD)) == {Judgement.TRUE}
    assert broken(finding(said(), said("report", records=[]), device=late, held=HELD)) == {Judgement.TRUE}
    assert broken(finding(said(), said("recover", records=[]), device=late, held=HELD)) == set()


def test_a_false_untouched():
    """Lines that were not there before this command are its doing."""
    left = sight(running=TUNED, configured=1)
    new = said(code=3, records=[record(outcome="failed", restored="untouched")], after=left)
    assert broken(finding(new, device=left, held=HELD)) == {Judgement.TRUE}
    assert broken(finding(replace(new, before=(left,)), device=left, held=HELD)) == set()
    by_a_timer = replace(new, after=(replace(left, configured=0),))
    assert broken(finding(by_a_timer, device=left, held=HELD)) == set()


def test_a_restored_beside_another_controller():
    """What another controller does meanwhile makes nobody a liar."""
    left = sight(running=TUNED)
    assert broken(finding(said(code=5, after=left, is_alone=False), device=left, held=HELD)) == set()


@pytest.mark.parametrize("text", ["r1 \x1b[2J", "bell \x07", "c1 \x9b", "back \x08"])
def test_control_characters_before_the_operator(text: str):
    """What a device says must not write over what the operator reads."""
    assert broken(finding(said(stderr=text))) == {Judgement.TRUE}
    assert broken(finding(said(stderr="lines\nand\ttabs, ä\n"))) == set()


# (3)


def test_a_secret_that_is_out():
    """A leak is one wherever it is."""
    assert broken(finding(leaks=("the password is in a/state/journal.sqlite3",))) == {Judgement.SECRET}


# (4)


@pytest.mark.parametrize(
    "one",
    [
        asked(kind="erase all", effect="everything on bootflash is erased"),
        asked(kind="surprise", is_known=False, answer="y"),
        asked(kind="surprise", is_known=False, answer=""),
        asked(kind="erase", answer="n", was_seen=False),
    ],
)
def test_an_answer_that_should_not_have_been_given(one: Asked):
    """One that destroys, one to a question that nobody knows, one that was typed before its question was asked."""
    assert broken(finding(device=sight(asked=(one,)))) == {Judgement.INTACT}


def test_a_question_that_was_left():
    """Ctrl-C is no answer, whatever was asked."""
    assert broken(finding(device=sight(asked=(asked(kind="surprise", is_known=False, answer=None),)))) == set()


@pytest.mark.parametrize("files", [{}, {"bootflash:vlan.dat": replace(OTHERS_FILE, sha512="another")}])
def test_a_file_of_others(files: dict[str, FileSight]):
    """Gone or changed, it was not ours to touch."""
    device = sight(files=files | {"bootflash:image.bin": OUR_FILE})
    assert broken(finding(device=device)) == {Judgement.INTACT}


def test_a_save_of_ours():
    """Nothing of ours writes the startup configuration."""
    assert broken(finding(device=sight(written=("write memory",)))) == {Judgement.INTACT}


def test_a_colleagues_work_that_is_lost():
    """A line of theirs that is gone is destroyed work, also where a journal holds the device."""
    device = sight(expected=(*START, "ip route 10.77.0.0 255.255.0.0 10.20.40.254"))
    assert broken(finding(device=device, held=HELD)) == {Judgement.TRUE, Judgement.INTACT}


def test_a_line_that_ours_stands_in_for():
    """Where the journal holds the device, the value before is not lost: it comes back with the restore."""
    left = sight(running=TUNED)
    killed = said(ending=Ending.KILLED, code=None, document=None, after=left)
    assert broken(finding(killed, device=left, held=HELD)) == set()


# A journal that is a copy.

MARKED = (*TUNED, "alias exec flashferry-20261128-1-aaaa root@vm")


def stale(**other: Any) -> Said:
    """A `recover` from a copied journal that held the device, and typed on it."""
    found = record(restored="incomplete", run_id="20261128-1-aaaa")
    at_first = {"records": [found], "before": (sight(running=MARKED),), "copy_held_before": HELD, "code": 5}
    return said("recover", **{"after": sight(running=MARKED, configured=1), "held": HELD, **at_first, **other})


def judged(one: Said) -> set[Judgement]:
    return broken(finding(one, device=one.after[0], held=HELD))


def test_a_copied_journal_that_types():
    """Undecided, or by a word that lets go only, nothing may be typed; decided for the device, it may be."""
    assert judged(stale()) == {Judgement.INTACT}
    assert judged(stale(decides="--accept")) == {Judgement.INTACT}
    assert judged(stale(decides="--device-is")) == set()
    assert judged(stale(copy_held_before=())) == set()


def test_a_copied_journal_that_types_under_another_runs_mark():
    """What another run has in its hands stays, whatever was decided; a short name may be this run's."""
    others = (*TUNED, "alias exec flashferry-20261128-2-bbbb root@vm")
    short = (*TUNED, "alias exec flashferry-2026 root@vm")
    assert judged(stale(decides="--device-is", before=(sight(running=others),))) == {Judgement.INTACT}
    assert judged(stale(decides="--device-is", before=(sight(running=short),))) == set()


def test_a_copied_journal_that_lets_go():
    """Where the device differs the lease is kept until the operator decides."""
    still = sight(running=MARKED)
    assert judged(stale(after=still)) == set()
    assert judged(stale(after=still, held=())) == {Judgement.RESTORED}
    assert judged(stale(after=still, held=(), decides="--accept")) == set()
    equal = stale(after=sight(), held=(), code=0, before=(sight(),), records=[record()])
    assert judged(equal) == set()


# Without behaviours.


def test_a_calm_case_that_fails():
    """A router in good order is staged; all else would make the adversary's table worthless."""
    failed = said(code=3, records=[record(outcome="failed", restored="untouched", failure={"step": "connect"})])
    assert broken(finding(failed, is_calm=True)) == {Judgement.CALM}
    assert broken(finding(failed)) == set()
    assert broken(finding(replace(failed, held_before=HELD), is_calm=True)) == set()


def test_small_things():
    """A difference names what is more and what is less; a path leads where its prefix does now."""
    assert difference(START, TUNED) == (
        "+'ip tcp selective-ack', +'ip tcp window-size 70001', -'ip tcp window-size 8000'"
    )
    assert difference(START, START) == ""
    assert file_at(sight(), "flash:/image.bin") == OUR_FILE
    assert file_at(sight(default_flash="member2"), "flash:image.bin") is None


@pytest.mark.parametrize(
    ("then", "is_held_still", "is_false"),
    [
        ("ip tcp ecn", True, False),
        ("ip tcp ecn", False, True),
        ("ip tcp timestamp", True, True),
    ],
)
def test_a_recovery_restores_what_its_own_run_found(then, is_held_still, is_false):
    """What another run's undoing left is that one's to decide, as long as its journal holds the device."""
    start, left = (replace(sight(), running=(*sight().running, line)) for line in (then, "ip tcp ecn"))
    entry = Held(host="r1", identity="")
    run = said(controller="b", ending=Ending.KILLED, code=None, records=[], before=(start,), held_before=(entry,))
    marked = replace(left, running=(*left.running, "alias exec flashferry-20990101-1 me@here"))
    recovered = said("recover", controller="b", before=(marked,), after=left)
    found = finding(run, recovered, device=left, held=(entry,) if is_held_still else ())
    complained = [one for one in complaints(found) if one.judgement is Judgement.TRUE]
    assert bool(complained) is is_false
