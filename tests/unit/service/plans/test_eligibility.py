"""A plan comes in: checked as a run checks it, and nothing that could harm who reads it or the host it is on."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest

from flashferry.core.values import replace
from flashferry.model.fleet_plan import Action
from flashferry.model.plan_file import plan_document, plan_text, sealed
from flashferry.service.api.problems import status_of
from flashferry.service.entered_text import LONGEST_TITLE
from flashferry.service.errors import ServiceError
from flashferry.service.plans.eligibility import offer
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.plans import text_of


def refused(service, actor, content, title=""):
    with pytest.raises(ServiceError) as found:
        offer(service, actor, content, title)
    assert found.value.hint
    return found.value


def test_a_plan_is_kept_as_it_was_sent(service, who, plan):
    """Byte for byte, with what lists tell of it."""
    content = plan_text(plan).encode()
    stored, is_new = offer(service, who("maker"), content, "  Core   routers ")
    assert is_new
    assert (stored.title, stored.sites, stored.devices, stored.images) == (
        "Core routers",
        ("AMS", "LIM"),
        1,
        ("new.bin",),
    )
    assert (stored.made_by, stored.ends_at) == ("maker", "2026-11-22T05:00:00.000Z")
    with service.database.reading() as database:
        assert text_of(database, stored.digest).encode() == content


def test_the_same_text_again_is_the_plan_that_it_was(service, who, plan):
    """Whoever sends it: the maker of a digest is who came first."""
    content = plan_text(plan).encode()
    first, _ = offer(service, who("maker"), content)
    again, is_new = offer(service, who("eve"), content, "mine")
    assert (again, is_new) == (first, False)


@pytest.mark.parametrize("name", ["bob", "ann"])
def test_only_an_operator_at_all_its_sites_offers_a_plan(service, who, plan, name):
    """Also at those of devices that it only tells of."""
    found = refused(service, who(name), plan_text(plan).encode())
    assert (status_of(found), found.sentence) == (HTTPStatus.FORBIDDEN, "plan: expected an operator at AMS, LIM")


def test_devices_without_a_site_take_the_role_everywhere(service, who, plan):
    """Who has it at the sites that are named has not all."""
    lone = replace(plan, devices=(replace(plan.devices[0], site=None),))
    assert status_of(refused(service, who("bob"), plan_text(lone).encode())) is HTTPStatus.FORBIDDEN
    assert offer(service, who("maker"), plan_text(lone).encode())[0].sites == ("",)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff\xfe", b"null", b'{"schema":"flashferry.plan/1"}', b"[" * 9999]
)
def test_what_is_no_plan_is_refused(service, who, content):
    """In a sentence, whatever it is."""
    assert status_of(refused(service, who("maker"), content)) is HTTPStatus.UNPROCESSABLE_ENTITY


def test_a_plan_that_was_changed_is_refused(service, who, plan):
    """Its digest does not fit any more."""
    text = plan_text(plan).replace("192.0.2.1", "192.0.2.9")
    assert "it has changed since it was made" in refused(service, who("maker"), text.encode()).sentence


def test_one_larger_than_any_plan_is_refused(service, who):
    """Before it is parsed."""
    found = refused(service, who("maker"), b" " * ((32 << 20) + 1))
    assert status_of(found) is HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"duration_s": float("inf")}, "figures that are finite"),
        ({"ends_at": "2026-11-21T19:59:59+00:00"}, "an end that is still to come"),
        ({"ends_at": "2026-11-22T05:00:00"}, "a time as ISO 8601 has it, with its zone"),
        ({"starts_at": "tonight"}, "starts_at: expected a time as ISO 8601 has it"),
        ({"ends_at": "tomorrow"}, "a time as ISO 8601 has it"),
    ],
)
def test_figures_that_no_plan_has_are_refused(service, who, plan, changes, why):
    """Who writes a plan himself gets no page into trouble."""
    text = json.dumps(sealed(plan_document(plan) | changes))
    assert why in refused(service, who("maker"), text.encode()).sentence


def test_half_a_character_is_refused(service, who, plan):
    """A lone surrogate can be neither shown nor written."""
    text = json.dumps(sealed(plan_document(plan) | {"assumptions": ["broken \ud800"]}))
    assert "whole characters" in refused(service, who("maker"), text.encode()).sentence


def test_a_plan_without_a_device_to_stage_is_refused(service, who, plan):
    """There is nothing to approve."""
    nothing = replace(plan, waves=(), devices=(replace(plan.devices[0], action=Action.ALREADY_THERE, wave=-1),))
    assert "at least one device" in refused(service, who("maker"), plan_text(nothing).encode()).sentence


def test_a_plan_takes_images_from_the_services_folder_alone(service, who, plan, tmp_path):
    """Not the service's own database, say, which it could read."""
    elsewhere = tmp_path / "state"
    image = replace(plan.images[0], path=str(elsewhere / "service.sqlite3"), name="service.sqlite3")
    stolen = replace(
        plan,
        images=(image,),
        image_folders=(str(elsewhere),),
        devices=(replace(plan.devices[0], image="service.sqlite3"),),
    )
    assert "below the service's folder of images" in refused(service, who("maker"), plan_text(stolen).encode()).sentence


def test_a_service_that_is_told_no_folder_has_one_of_its_own(service, who, plan):
    """`images` in the state folder; what lies elsewhere leaves by no plan."""
    bare = Service(state=service.state, settings=ServiceSettings(), database=service.database, now=service.now)
    assert "below the service's folder of images" in refused(bare, who("maker"), plan_text(plan).encode()).sentence


@pytest.mark.parametrize("title", ["x" * (LONGEST_TITLE + 1), "a\x00b", "a\x1b[31m"])
def test_a_title_is_a_line(service, who, plan, title):
    """Short, and without what terminals obey."""
    assert "title: expected one line" in refused(service, who("maker"), plan_text(plan).encode(), title).sentence
