"""An agent's hand on its depot: what is proven there, what lies there by hand, and what only a source has."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.depot.catalogue.part import CatalogueBusy
from flashferry.depot.sync.filling import SourceUnreachable, SyncStopped
from flashferry.images.image import PlannedImage
from flashferry.sites.agent.bench import SiteDepot
from flashferry.sites.settings import SourceSettings

CONTENT = b"an image" * 1000
IMAGE = PlannedImage(
    name="image.bin",
    path="/centre/image.bin",
    size_bytes=len(CONTENT),
    md5=hashlib.md5(CONTENT).hexdigest(),
    sha512=hashlib.sha512(CONTENT).hexdigest(),
)


@pytest.fixture
def depot(tmp_path: Path) -> SiteDepot:
    """One without a source, into whose catalogue somebody laid the image by hand."""
    made = SiteDepot(tmp_path / "catalogue", None)
    (made.catalogue.path / IMAGE.name).write_bytes(CONTENT)
    return made


def test_an_image_laid_there_by_hand_counts_once_it_is_what_the_plan_has(depot: SiteDepot) -> None:
    """Before nobody knows what it should be; behind that it is told as proven."""
    assert depot.catalogue.unchanged() == ()
    assert depot.fetch(IMAGE).sha512 == IMAGE.sha512
    assert [one.name for one in depot.catalogue.unchanged()] == [IMAGE.name]


def test_another_image_or_none_is_told_as_that(depot: SiteDepot) -> None:
    """And gets no proof."""
    with pytest.raises(ConfigInvalid, match="found another one"):
        depot.fetch(replace(IMAGE, sha512="9" * 128))
    with pytest.raises(ConfigInvalid, match="found none"):
        depot.fetch(replace(IMAGE, name="none.bin"))
    assert depot.catalogue.unchanged() == ()


def test_an_image_that_changed_on_disk_is_proven_anew(depot: SiteDepot) -> None:
    """A flipped bit is no proof of the day before; a beat reads nothing, and tells it no more."""
    depot.fetch(IMAGE)
    (depot.catalogue.path / IMAGE.name).write_bytes(b"X" + CONTENT[1:])
    assert depot.catalogue.unchanged() == ()
    with pytest.raises(ConfigInvalid, match="found another one"):
        depot.fetch(IMAGE)


def test_a_catalogue_that_somebody_else_fills_is_busy(depot: SiteDepot) -> None:
    """As with 'flashferry depot verify' at the site: the order waits."""
    with depot.catalogue.locked(), pytest.raises(CatalogueBusy):
        depot.fetch(IMAGE)


def test_a_source_that_is_away_is_told_as_that_and_waited_for_no_longer_than_wanted(tmp_path: Path) -> None:
    """It is tried again, unlike one that has another image."""
    depot = SiteDepot(tmp_path / "catalogue", SourceSettings(url="http://127.0.0.1:1"))
    with pytest.raises(SourceUnreachable):
        depot.plan("0" * 64)
    with pytest.raises(SyncStopped):
        depot.fetch(IMAGE, interrupted=lambda: depot.fetching is not None)
    assert depot.fetching is None


def test_a_password_that_cannot_be_read_is_told_at_the_start(tmp_path: Path) -> None:
    """With the file, not in the midst of a night."""
    source = SourceSettings(url="http://127.0.0.1:1", user="ams", password_file=tmp_path / "gone")
    with pytest.raises(ConfigInvalid, match="gone: expected the source's password"):
        SiteDepot(tmp_path / "catalogue", source)
