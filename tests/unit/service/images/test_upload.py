"""Images come in pieces, by one sender at a time, and are what was sent whatever happens on the way."""

from __future__ import annotations

import hashlib

import pytest

from flashferry.core.values import replace
from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.images.lifecycle import reconcile_folder
from flashferry.service.images.upload import MOST_AT_ONCE, MOST_OF_A_PERSON, check_share
from flashferry.service.images.upload_sessions import SILENT_S, HeldByAnother, UploadSessions
from flashferry.service.settings import ImageSettings
from tests.served import serve
from tests.unit.service.images.conftest import CONTENT, IMAGES, sha512_of

NAME = "c2960x-universalk9-mz.152-7.E8.bin"


def test_an_image_in_three_pieces(served, op, announce, send):
    """The offset is told at each step; the digests are those of the whole, and the name inside is found."""
    made = announce(NAME, len(CONTENT))
    assert (made.status_code, made.headers["Location"]) == (201, f"{IMAGES}/{NAME}")
    for begin, end in ((0, 7), (7, 1000), (1000, len(CONTENT))):
        told = served.call("HEAD", f"{IMAGES}/{NAME}", op)
        assert (told.status_code, told.headers["Upload-Offset"], told.headers["Upload-Length"]) == (
            200,
            str(begin),
            str(len(CONTENT)),
        )
        answer = send(NAME, CONTENT[begin:end], begin)
        assert (answer.status_code, answer.headers["Upload-Offset"]) == (200, str(end))
    image = served.call("GET", f"{IMAGES}/{NAME}", op).json()
    assert (image["md5"], image["sha512"]) == (hashlib.md5(CONTENT).hexdigest(), sha512_of(CONTENT))
    assert (image["state"], image["is_usable"], image["inside"]) == ("unknown", False, "C2960X-UNIVERSALK9-M")
    assert (served.service.images / NAME).read_bytes() == CONTENT
    assert [one.action for one in served.audit() if one.object == f"image:{NAME}"] == [
        "image.announced",
        "image.uploaded",
    ]


def test_a_wrong_offset_is_told_the_right_one(announce, send):
    """409 with `offset`; nothing of the piece is written."""
    announce(NAME, len(CONTENT))
    send(NAME, CONTENT[:100])
    for offset in (0, 99, 101):
        answer = send(NAME, b"x", offset)
        assert (answer.status_code, answer.json()["offset"]) == (409, 100)
        assert f"offset is 100, not {offset}" in answer.json()["detail"]
    assert send(NAME, CONTENT[100:], 100).json()["sha512"] == sha512_of(CONTENT)


@pytest.mark.parametrize("cut", [0, 1, 2000])
def test_another_process_goes_on_from_what_is_on_disk(served, op, announce, send, cut):
    """Digests are worked out again from the file; what is behind the offset of the table is written anew."""
    announce(NAME, len(CONTENT))
    if cut:
        send(NAME, CONTENT[:cut])
    part = served.service.images / ".arriving" / f"{NAME}.part"
    with part.open("ab") as file:
        file.write(b"never synced")
    later = replace(served, app=serve(served.service.state, served.service.settings).app)
    path, headers = f"{IMAGES}/{NAME}", {"Upload-Offset": str(cut)}
    assert later.call("HEAD", path, op).headers["Upload-Offset"] == str(cut)
    answer = later.call("PATCH", path, op, content=CONTENT[cut:], headers=headers)
    assert answer.json()["sha512"] == sha512_of(CONTENT)
    assert (served.service.images / NAME).read_bytes() == CONTENT


def test_a_file_that_lost_its_end_is_gone_on_with_from_there(served, op, announce, send):
    """Somebody cut it, or a disk did: what is gone is sent again."""
    announce(NAME, len(CONTENT))
    send(NAME, CONTENT[:1000])
    (served.service.images / ".arriving" / f"{NAME}.part").write_bytes(CONTENT[:10])
    later = replace(served, app=serve(served.service.state, served.service.settings).app)
    path = f"{IMAGES}/{NAME}"
    answer = later.call("PATCH", path, op, content=CONTENT[1000:], headers={"Upload-Offset": "1000"})
    assert (answer.status_code, answer.json()["offset"]) == (409, 10)
    answer = later.call("PATCH", path, op, content=CONTENT[10:], headers={"Upload-Offset": "10"})
    assert answer.json()["sha512"] == sha512_of(CONTENT)


def test_one_sender_at_a_time(tmp_path):
    """The other one is told where the first is; once that one is silent he takes over, and the first is refused."""
    now_s = [0.0]
    arrivals = UploadSessions(lambda: now_s[0])

    def take():
        return arrivals.take("a.bin", tmp_path / "a.part", size_bytes=9, received_bytes=0)

    first = take()
    first.write(b"abc")
    with pytest.raises(HeldByAnother) as held:
        take()
    assert held.value.offset == 3
    now_s[0] = SILENT_S
    second = take()
    assert second.offset == 3
    with pytest.raises(HeldByAnother):
        first.write(b"XXX")
    second.write(b"defghi")
    assert (second.end(), second.is_whole) == (9, True)
    assert second.contents().digests.sha512 == sha512_of(b"abcdefghi")
    assert (tmp_path / "a.part").read_bytes() == b"abcdefghi"


def test_a_part_is_no_image(served, op, announce, send):
    """It lies where nobody who serves the folder looks, is in no list of files, and the folder's keeper leaves it."""
    announce(NAME, len(CONTENT))
    send(NAME, CONTENT[:100])
    reconcile_folder(served.service)
    assert [path.name for path in served.service.images.iterdir()] == [".arriving"]
    (told,) = served.call("GET", IMAGES, op).json()["images"]
    assert (told["state"], told["received_bytes"], told["is_usable"]) == ("arriving", 100, False)


@pytest.mark.parametrize(
    "name",
    ["", ".hidden", "../x.bin", "a/b.bin", "-rf", "a b.bin", "a\n.bin", "a\x00.bin", "a" * 121, "ü.bin", "x.part", "."],
)
def test_names_are_names(served, announce, name):
    """No path, no dot first, no control characters, not too long."""
    answer = announce(name, 5)
    detail = answer.json()["detail"]
    assert (answer.status_code, "expected" in detail, "name" in detail) == (422, True, True)
    assert list(served.service.images.iterdir()) == []


@pytest.mark.parametrize(
    ("size_bytes", "sha512", "status", "why"),
    [
        (0, "", 422, "expected 1 to"),
        (-5, "", 422, "expected 1 to"),
        (10**6 + 1, "", 413, "expected 1 to"),
        (5, "abc", 422, "128 hexadecimal digits"),
    ],
)
def test_what_is_announced_is_checked(announce, size_bytes, sha512, status, why):
    """A size within bounds, a digest that is one."""
    answer = announce(NAME, size_bytes, sha512)
    assert (answer.status_code, why in answer.json()["detail"]) == (status, True)


def test_more_than_was_announced_is_refused(served, announce, send):
    """Before a byte of it is written, where its length is told."""
    announce(NAME, 10)
    assert send(NAME, b"x" * 11).status_code == 413
    assert send(NAME, b"x" * 4).status_code == 200
    assert send(NAME, b"x" * 7, 4).status_code == 413
    assert send(NAME, b"x" * 6, 4).json()["state"] == "unknown"


def test_room_that_is_to_stay_free_stays_free(served, announce, monkeypatch):
    """Others' uploads count with what they have not sent yet."""
    free = [10_000]
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free[0]}))
    settings = ImageSettings(most_bytes=10**6, reserve_bytes=4_000)
    object.__setattr__(served.service, "settings", replace(served.service.settings, images=settings))
    assert announce("a.bin", 4_000).status_code == 201
    refused = announce("b.bin", 3_000)
    assert (refused.status_code, "beside 4,000 that others are sending" in refused.json()["detail"]) == (507, True)
    assert announce("b.bin", 2_000).status_code == 201


def test_announced_twice_is_gone_on_with(announce, send):
    """The same file: its offset; another one of that name: a conflict, also once it has arrived."""
    announce(NAME, len(CONTENT))
    send(NAME, CONTENT[:100])
    again = announce(NAME, len(CONTENT))
    assert (again.status_code, again.headers["Upload-Offset"]) == (200, "100")
    assert announce(NAME, 5).status_code == 409
    assert announce(NAME, len(CONTENT), "0" * 128).status_code == 409
    send(NAME, CONTENT[100:], 100)
    assert announce(NAME, len(CONTENT)).status_code == 409
    assert send(NAME, b"x", 100).status_code == 409


def test_a_file_that_is_there_by_hand_keeps_its_name(served, announce):
    """An upload never takes another file's place."""
    (served.service.images / NAME).write_bytes(b"by hand")
    assert announce(NAME, 5).status_code == 409


def test_an_upload_is_given_up(served, op, announce, send):
    """By any operator; its name is free then, and its part is gone."""
    announce(NAME, len(CONTENT))
    send(NAME, CONTENT[:100])
    assert served.call("DELETE", f"{IMAGES}/{NAME}", op).status_code == 204
    assert list((served.service.images / ".arriving").iterdir()) == []
    assert served.call("GET", f"{IMAGES}/{NAME}", op).status_code == 404
    assert announce(NAME, 5).status_code == 201


def test_an_upload_that_nobody_goes_on_with_is_given_up(served, announce):
    """After as long as images that were taken away are kept."""
    announce(NAME, 5)
    served.clock.forward(6 * 86400)
    reconcile_folder(served.service)
    assert served.audit()[-1].action == "image.announced"
    served.clock.forward(86400)
    reconcile_folder(served.service)
    assert (served.audit()[-1].action, served.audit()[-1].actor) == ("image.given_up", "system")


def test_only_operators_send(served, announce, send):
    """Who may look is told of images, and sends none."""
    viv = served.token("viv")
    assert announce(NAME, 5, by=viv).status_code == 403
    announce(NAME, 5)
    assert send(NAME, b"12345", by=viv).status_code == 403
    assert served.call("HEAD", f"{IMAGES}/{NAME}", viv).status_code == 200
    assert served.call("HEAD", f"{IMAGES}/{NAME}").status_code == 401


def test_a_person_announces_so_many_and_others_still_can(served, announce):
    """The sixth of one person is refused by a 429 with a sentence; another person announces theirs."""
    served.person("lim", "operator@LIM")
    for number in range(MOST_OF_A_PERSON):
        assert announce(f"a{number}.bin", 100).status_code == 201
    refused = announce("more.bin", 100)
    assert refused.status_code == 429
    assert refused.json()["detail"] == "images: expected fewer than 5 of op being uploaded, found 5"
    assert refused.headers["Retry-After"] == "60"
    assert announce("a0.bin", 100).status_code == 200
    assert announce("b.bin", 100, by=served.token("lim")).status_code == 201


def test_a_person_without_an_image_arriving_can_announce_one():
    """However many others have; a second one of theirs waits for a free place."""
    others = [(f"person{number % 4}", 100) for number in range(MOST_AT_ONCE)]
    check_share("late", others, 1000, 1000)
    with pytest.raises(ServiceError, match="expected fewer than 20 being uploaded, found 21") as refused:
        check_share("late", [*others, ("late", 100)], 100, 1000)
    assert status_of(refused.value) == 409


def test_a_persons_images_together_are_no_larger_than_one_may_be():
    """Two that fit one image's bound are announced, a third that does not is refused; another person's is not."""
    arriving = [("op", 400), ("op", 500)]
    check_share("op", arriving, 100, 1000)
    with pytest.raises(ServiceError, match="expected at most 1,000 bytes of op being uploaded, found 900") as refused:
        check_share("op", arriving, 101, 1000)
    assert status_of(refused.value) == 429
    check_share("lim", arriving, 1000, 1000)
