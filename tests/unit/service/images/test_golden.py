"""The golden image of a model: only one that may be used, and never one of another platform."""

from __future__ import annotations

import pytest

from tests.unit.service.images.conftest import CONTENT, IMAGES, sha512_of

SWITCH, ROUTER = "c2960x-universalk9-mz.152-7.E8.bin", "c2900-universalk9-mz.SPA.157-3.M.bin"
MODEL = "WS-C2960X-24TS-L"


def golden(model: str = MODEL) -> str:
    return f"/api/v1/golden/{model}"


@pytest.fixture
def choose(served, chief):
    """Return what says which image is golden."""
    return lambda model, image, **more: served.call("PUT", golden(model), chief, json={"image": image} | more)


def test_for_all_sites_and_for_one(served, op, chief, upload, choose):
    """A site's own goes before that of all; both are told, changed and taken back by an admin, and audited."""
    upload(SWITCH, sha512=sha512_of(CONTENT))
    upload("c2960x-old.bin", b"old", sha512_of(b"old"))
    assert choose(MODEL.lower(), SWITCH).json()["model"] == MODEL
    assert choose(MODEL, "c2960x-old.bin", site="AMS").status_code == 200
    assert served.call("GET", f"{golden()}?site=AMS", op).json()["image"] == "c2960x-old.bin"
    assert served.call("GET", f"{golden()}?site=LIM", op).json()["image"] == SWITCH
    assert served.call("PUT", golden(), op, json={"image": SWITCH}).status_code == 403
    refused = served.call("DELETE", f"{IMAGES}/{SWITCH}?reason=old", chief)
    assert (refused.status_code, refused.json()["named_by"]) == (409, [f"golden:{MODEL}@*"])
    assert served.call("DELETE", f"{golden()}?site=AMS", chief).status_code == 204
    assert served.call("DELETE", f"{golden()}?site=AMS", chief).status_code == 404
    assert [one["site"] for one in served.call("GET", "/api/v1/golden", op).json()["golden"]] == ["*"]
    assert [one.action for one in served.audit() if one.action.startswith("golden") and one.outcome == "done"] == [
        "golden.set",
        "golden.set",
        "golden.removed",
    ]


@pytest.mark.parametrize(
    ("model", "name", "content", "why"),
    [
        ("CISCO2911/K9", SWITCH, CONTENT, "this is a CISCO2911/K9 (2900)"),
        (MODEL, ROUTER, b"no name inside", "is for the family 2900 (by its name)"),
        ("CISCO2911/K9", ROUTER, CONTENT, "its name is of the family 2900, and the name inside the file"),
        (MODEL, ROUTER, CONTENT, "its name is of the family 2900, and the name inside the file"),
        (MODEL, "renamed.bin", CONTENT.replace(b"C2960X", b"C2900"), "by the name inside the file"),
    ],
)
def test_another_platforms_image_is_refused(served, upload, choose, model, name, content, why):
    """By the file's name, by the name inside, and where the two disagree."""
    upload(name, content, sha512_of(content))
    answer = choose(model, name)
    assert (answer.status_code, why in answer.json()["detail"]) == (409, True), answer.text
    assert (served.audit()[-1].action, served.audit()[-1].outcome) == ("golden.set", "refused")


def test_what_cannot_be_told_is_taken(upload, choose):
    """The table of families lacks many; a refusal of all of them would teach to go round it."""
    upload("vendor.bin", b"nothing inside", sha512_of(b"nothing inside"))
    assert choose("UNHEARD-OF", "vendor.bin").status_code == 200


@pytest.mark.parametrize(("sha512", "status"), [("", 409), ("0" * 128, 409), (sha512_of(CONTENT), 200)])
def test_only_what_may_be_used_is_golden(upload, choose, sha512, status):
    """Neither unknown ones nor mismatches."""
    upload(SWITCH, sha512=sha512)
    assert choose(MODEL, SWITCH).status_code == status


def test_names_of_models_and_sites_are_names(choose):
    """What is none is refused before anything is looked up."""
    assert choose("a b", SWITCH).status_code == 422
    assert choose(MODEL, SWITCH, site="").status_code == 422
    assert choose(MODEL, "none.bin").status_code == 409
