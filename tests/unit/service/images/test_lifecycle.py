"""Images that are here: vouched for, held against what was published anew, taken away, brought back, found by hand."""

from __future__ import annotations

import os

import pytest

from flashferry.service.images.lifecycle import reconcile_folder
from flashferry.service.images.verification import why_not_usable
from flashferry.store.service.images import Published, add_published
from tests.unit.service.images.conftest import CONTENT, IMAGES, sha512_of

NAME = "c2960x-universalk9-mz.152-7.E8.bin"
WHY = {"reason": "from the vendor's own hands"}


def by_hand(served, content: bytes, name: str = NAME) -> None:
    """Put a file into the folder that nobody has written to for a while."""
    path = served.service.images / name
    path.write_bytes(content)
    os.utime(path, (1, 1))


def standing(served, sha512: str | None = None) -> str:
    with served.service.database.reading() as database:
        return why_not_usable(database, NAME, sha512)


def change(served, statement: str, *values: object) -> None:
    with served.service.database.writing() as database:
        database.execute(statement, values)


def test_an_image_with_the_pasted_digest_is_published(served, upload):
    """Usable for plans at once; who pasted it is told."""
    told = upload(NAME, sha512=f" {sha512_of(CONTENT).upper()} ")
    assert (told["state"], told["told"]) == (
        "published",
        "its SHA-512 is the one that op pasted as the vendor's",
    )
    assert standing(served, told["sha512"]) == ""
    assert "not the one that the plan" in standing(served, "0" * 128)


def test_a_mismatch_is_never_usable(served, op, chief, upload):
    """Its file is not in the folder, nobody can vouch for it; only removed is it, and the name is free again."""
    told = upload(NAME, sha512="0" * 128)
    assert (told["state"], told["is_usable"]) == ("mismatch", False)
    assert not (served.service.images / NAME).exists()
    assert "is not what the vendor published (its SHA-512 is" in standing(served)
    assert served.call("POST", f"{IMAGES}/{NAME}/vouch", chief, json=WHY).status_code == 409
    assert served.call("DELETE", f"{IMAGES}/{NAME}?reason=bad", op).status_code == 403
    assert served.call("DELETE", f"{IMAGES}/{NAME}?reason=bad", chief).status_code == 204
    assert [path for path in served.service.images.rglob("*") if path.is_file()] == []
    assert upload(NAME)["state"] == "unknown"


def test_an_admins_word(served, op, chief, upload):
    """With a reason, which stands in the audit; not by who operates."""
    upload(NAME)
    assert standing(served).startswith(f"image {NAME} is unknown")
    path = f"{IMAGES}/{NAME}/vouch"
    assert served.call("POST", path, op, json=WHY).status_code == 403
    assert served.call("POST", path, chief, json={"reason": " "}).status_code == 422
    told = served.call("POST", path, chief, json=WHY).json()
    assert (told["state"], told["vouched_by"], told["is_usable"]) == ("vouched", "chief", True)
    assert standing(served) == ""
    (entry,) = [one for one in served.audit() if one.action == "image.vouched"]
    assert (entry.actor, entry.outcome, entry.reason) == ("chief", "done", WHY["reason"])
    assert served.call("POST", path, chief, json=WHY).status_code == 409
    assert served.audit()[-1].outcome == "refused"


@pytest.mark.parametrize("vouched", [False, True])
@pytest.mark.parametrize(("sha512", "state"), [(sha512_of(CONTENT), "published"), ("0" * 128, "mismatch")])
def test_what_is_published_later_counts(served, op, chief, upload, sha512, state, vouched):
    """Also against an admin's word."""
    upload(NAME)
    if vouched:
        served.call("POST", f"{IMAGES}/{NAME}/vouch", chief, json=WHY)
    with served.service.database.writing() as database:
        add_published(database, [Published(name=NAME, md5="", sha512=sha512, source="the list", at="2026")])
    assert served.call("POST", f"{IMAGES}/{NAME}/verify", op, json={}).json()["state"] == state
    assert (served.service.images / NAME).exists() is (state == "published")


def test_a_word_holds_while_nothing_is_published(served, op, chief, upload):
    """Looking again takes nothing back; a pasted digest that differs does."""
    upload(NAME)
    served.call("POST", f"{IMAGES}/{NAME}/vouch", chief, json=WHY)
    path = f"{IMAGES}/{NAME}/verify"
    told = served.call("POST", path, op, json={}).json()
    assert (told["state"], told["told"]) == ("vouched", f"chief approved it: {WHY['reason']}")
    assert served.call("POST", path, op, json={"sha512": "0" * 128}).json()["state"] == "mismatch"
    told = served.call("POST", path, op, json={"sha512": sha512_of(CONTENT)}).json()
    assert (told["state"], (served.service.images / NAME).exists()) == ("published", True)


def test_taken_away_brought_back_and_gone(served, op, chief, upload):
    """Its file leaves the folder at once; after its time nobody can bring it back."""
    upload(NAME, sha512=sha512_of(CONTENT))
    path = f"{IMAGES}/{NAME}"
    assert served.call("DELETE", f"{path}?reason=old", op).status_code == 403
    assert served.call("DELETE", path, chief).status_code == 422
    assert served.call("DELETE", f"{path}?reason=old", chief).status_code == 204
    assert not (served.service.images / NAME).exists()
    assert "was removed" in standing(served)
    assert served.call("POST", f"{path}/restore", chief, json=WHY).json()["state"] == "published"
    assert (served.service.images / NAME).read_bytes() == CONTENT
    served.call("DELETE", f"{path}?reason=old", chief)
    served.clock.forward(7 * 86400 - 1)
    reconcile_folder(served.service)
    assert served.call("GET", path, op).json()["state"] == "hidden"
    served.clock.forward(1)
    reconcile_folder(served.service)
    assert served.call("GET", path, op).status_code == 404
    assert [one for one in served.service.images.rglob("*") if one.is_file()] == []
    assert (served.audit()[-1].action, served.audit()[-1].actor) == ("image.removed", "system")


@pytest.mark.parametrize(
    ("state", "ends_at", "schedule", "job", "names"),
    [
        ("draft", None, None, None, ["plan:d1"]),
        ("approved", "2099", None, None, ["plan:d1"]),
        ("approved", "2020", None, None, []),
        ("withdrawn", None, None, None, []),
        ("withdrawn", None, "active", None, ["schedule:s1"]),
        ("withdrawn", None, "held", None, ["schedule:s1"]),
        ("withdrawn", None, "ended", None, []),
        ("approved", "2020", None, "running", ["job:j1"]),
        ("approved", "2020", None, "ended", []),
    ],
)
def test_nothing_is_taken_away_that_something_names(served, chief, upload, state, ends_at, schedule, job, names):
    """A plan that has not ended, a schedule, a job under way: they are named; the rest is past."""
    upload(NAME)
    change(
        served,
        "INSERT INTO plans (digest, text, sites, devices, images, made_by, made_at, ends_at, state, decided_by, "
        "withdrawn_by) VALUES ('d1', '', '[]', 1, json_array(?), 'op', '2026', ?, ?, 'chief', 'op')",
        NAME,
        ends_at,
        state,
    )
    if schedule:
        change(
            served,
            "INSERT INTO schedules (schedule_id, title, kind, subject, calendar, time_zone, window_s, owner, made_by, "
            "made_at, state) VALUES ('s1', '', 'plan', 'd1', '', '', 1, 'op', 'op', '2026', ?)",
            schedule,
        )
    if job:
        change(
            served,
            "INSERT INTO jobs (job_id, kind, state, digest, words, requested_by, via, created_at) "
            "VALUES ('j1', 'stage', ?, 'd1', '[]', 'op', '', '2026')",
            job,
        )
    answer = served.call("DELETE", f"{IMAGES}/{NAME}?reason=old", chief)
    assert answer.status_code == (409 if names else 204)
    if names:
        assert answer.json()["named_by"] == names
        assert served.audit()[-1].outcome == "refused"
        assert served.call("GET", f"{IMAGES}/{NAME}", chief).json()["named_by"] == names


def test_what_is_put_into_the_folder_is_an_image(served, op):
    """Unknown, in the name of the system; published where its content was; one that is a mismatch leaves the folder."""
    with served.service.database.writing() as database:
        rows = [
            Published(name=name, md5="", sha512=digest, source="the list", at="2026")
            for name, digest in ((NAME, sha512_of(CONTENT)), ("bad.bin", "0" * 128))
        ]
        add_published(database, rows)
    by_hand(served, CONTENT)
    by_hand(served, b"whatever", "other.bin")
    by_hand(served, b"not it", "bad.bin")
    by_hand(served, b"x", "no name.bin")
    (served.service.images / "new.bin").write_bytes(b"being copied")
    (served.service.images / "link.bin").symlink_to("/etc/passwd")
    reconcile_folder(served.service)
    told = served.call("GET", IMAGES, op).json()
    assert {one["name"]: (one["state"], one["uploaded_by"], one["source"]) for one in told["images"]} == {
        "bad.bin": ("mismatch", "system", "folder"),
        NAME: ("published", "system", "folder"),
        "other.bin": ("unknown", "system", "folder"),
    }
    assert told["left_out"] == ["link.bin", "no name.bin"]
    assert not (served.service.images / "bad.bin").exists()
    assert [one.action for one in served.audit()] == ["image.found"] * 3


def test_a_file_that_was_written_to_is_another_image(served, chief, upload):
    """An admin's word was for the other one."""
    upload(NAME)
    served.call("POST", f"{IMAGES}/{NAME}/vouch", chief, json=WHY)
    reconcile_folder(served.service)
    assert standing(served) == ""
    by_hand(served, b"another")
    reconcile_folder(served.service)
    told = served.call("GET", f"{IMAGES}/{NAME}", chief).json()
    assert (told["state"], told["size_bytes"], told["sha512"]) == ("unknown", 7, sha512_of(b"another"))
    assert (told["vouched_by"], served.audit()[-1].action) == (None, "image.changed")


def test_a_file_follows_its_row(served, upload):
    """A service that was killed between the two moves it at its next look."""
    upload(NAME)
    (served.service.images / NAME).rename(served.service.images / ".arriving" / f"{NAME}.part")
    reconcile_folder(served.service)
    assert (served.service.images / NAME).read_bytes() == CONTENT
    change(
        served,
        "UPDATE images SET state = 'hidden', state_before_hidden = 'unknown', hidden_at = ?",
        "2026-11-23T20:00:00.000Z",
    )
    reconcile_folder(served.service)
    assert [path.name for path in (served.service.images / ".hidden").iterdir()] == [NAME]
