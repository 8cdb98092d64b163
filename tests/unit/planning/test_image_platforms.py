"""One image goes to one platform: in a run as it meets its devices, in a plan as it has seen them all."""

from __future__ import annotations

from typing import Any

import pytest

from flashferry.images.image_platform_match import Fits, ImageFit
from flashferry.model.fleet_plan import Action, PlannedDevice
from flashferry.planning.gather import Found
from flashferry.planning.image_platforms import HINT, GivenImages, refused_where_shared
from inventory.host_view import HostView


def fit(family: str | None, fits: Fits = Fits.UNKNOWN) -> ImageFit:
    return ImageFit(fits=fits, reason="", device_family=family)


def test_the_first_platform_that_gets_an_image_keeps_it() -> None:
    """Its other devices may have it, also once more; one of another platform may not, and another image is another."""
    given = GivenImages()
    assert given.refusal("a.bin", "r1", fit("ISR 4300")) is None
    assert given.refusal("a.bin", "r1", fit("ISR 4300")) is None
    assert given.refusal("a.bin", "r2", fit("ISR 4300")) is None
    assert given.refusal("a.bin", "r3", fit("2800")) == (
        "a.bin goes to r1 (ISR 4300) in this run, this is a device of another platform (2800): one image is for one "
        "of them"
    )
    assert given.refusal("b.bin", "r3", fit("2800")) is None


@pytest.mark.parametrize("second", [None, fit(None), fit("2800", Fits.YES)], ids=["not seen", "unknown", "its own"])
def test_what_is_not_known_of_a_device_refuses_nothing(second: ImageFit | None) -> None:
    """A device of unknown platform is no proof of two, and one that the image is known to be for none either."""
    given = GivenImages()
    assert given.refusal("a.bin", "r1", fit("ISR 4300")) is None
    assert given.refusal("a.bin", "r2", second) is None


def found(host: str, family: str | None, action: Action = Action.STAGE, **more: Any) -> Found:
    view = HostView(
        name=host,
        address="192.0.2.1",
        port=22,
        platform="ios",
        site=None,
        link_rate_bps=None,
        cap_share=0.8,
        server_address=None,
        vrf=None,
    )
    planned = PlannedDevice(host=host, address="192.0.2.1", action=action, image=more.pop("image", "a.bin"))
    return Found(planned=planned, view=view, fit=fit(family, **more))


def test_a_plan_refuses_an_image_for_several_platforms_with_all_of_them() -> None:
    """All that were to get it are refused, those of unknown platform too: nobody can tell for whom it is."""
    everyone = (
        found("r1", "ISR 4300"),
        found("r2", "ISR 4300"),
        found("r3", "2800"),
        found("r4", None),
        found("r5", "2800", image="b.bin"),
        found("r6", "ASR 1000", action=Action.ALREADY_THERE),
        found("r7", "ASR 1000", fits=Fits.YES),
    )
    planned = [one.planned for one in refused_where_shared(everyone)]
    refused = [one for one in planned if one.action is Action.REFUSED]
    assert [one.host for one in refused] == ["r1", "r2", "r3", "r4"]
    assert {one.reason for one in refused} == {
        "a.bin is given to 2 platforms, ISR 4300 (r1 and 1 more), 2800 (r3): one image is for one of them"
    }
    assert {one.hint for one in refused} == {HINT}
    assert [one.action for one in planned[4:]] == [Action.STAGE, Action.ALREADY_THERE, Action.STAGE]


def test_a_plan_with_one_platform_for_each_image_is_left_as_it_is() -> None:
    """Nothing is refused where nothing is shared."""
    everyone = (found("r1", "ISR 4300"), found("r2", None), found("r3", "2800", image="b.bin"))
    assert refused_where_shared(everyone) == everyone
