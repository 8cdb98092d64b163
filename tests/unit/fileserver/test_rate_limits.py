"""Which cap holds, and how a site's is shared."""

import pytest

from flashferry.fileserver.rate_limits import Cap, SiteCaps, SiteLoad, elsewhere, given_cap, least_cap


def _load(transfers: int, moved_bytes: int = 0) -> SiteLoad:
    return SiteLoad(site="branch", transfers=transfers, moved_bytes=moved_bytes)


def test_the_least_cap_holds_and_keeps_its_source() -> None:
    """Caps that are not given do not count."""
    assert least_cap(None, Cap(bytes_per_s=5, source="a"), Cap(bytes_per_s=3, source="b"), None) == Cap(
        bytes_per_s=3, source="b"
    )
    assert least_cap(None, None) is None
    assert given_cap(None, "a") is None


def test_a_site_s_cap_is_divided() -> None:
    """One transfer gets all of it, three a third each, never less than 1000 bytes/s; the source says so."""
    caps = SiteCaps()
    caps.put("branch", Cap(bytes_per_s=9000, source="given"))
    assert caps.share("branch", 1) == caps.share("branch", 0) == Cap(bytes_per_s=9000, source="given")
    assert caps.share("branch", 3) == Cap(bytes_per_s=3000, source="1 of 3 shares of: given", shared_bytes_per_s=9000)
    assert caps.share("branch", 100) == Cap(
        bytes_per_s=1000, source="1 of 100 shares of: given", shared_bytes_per_s=9000
    )
    caps.put("branch", None)
    assert caps.share("branch", 1) is None
    assert "branch" not in caps


@pytest.mark.parametrize("counts", [{"main": 1, "ssh": 1}, {"main": 3, "ssh": 0}, {"main": 2, "ssh": 5, "third": 1}])
def test_the_shares_of_all_processes_make_the_cap(counts: dict[str, int]) -> None:
    """Each process divides by its own transfers and those it is told of: together never more than the site's cap."""
    loads = {name: _load(count) for name, count in counts.items()}
    total = 0
    for name, count in counts.items():
        caps = SiteCaps()
        caps.put("branch", Cap(bytes_per_s=90_000, source="given"))
        caps.put_elsewhere("branch", elsewhere(loads, "branch", name).transfers)
        share = caps.share("branch", count)
        assert share is not None
        total += count * share.bytes_per_s
    assert 0.99 * 90_000 <= total <= 90_000


def test_one_that_begins_takes_its_part_at_once() -> None:
    """Before the others know of it: two of them have the cap, so the third begins with a third of it."""
    caps = SiteCaps()
    caps.put("branch", Cap(bytes_per_s=9000, source="given"))
    caps.put_elsewhere("branch", elsewhere({"main": _load(2)}, "branch", "ssh").transfers)
    assert caps.share("branch", 0) == caps.share("branch", 1)
    assert caps.share("branch", 1) == Cap(bytes_per_s=3000, source="1 of 3 shares of: given", shared_bytes_per_s=9000)
    caps.put_elsewhere("branch", 0)
    assert caps.share("branch", 1) == Cap(bytes_per_s=9000, source="given")


def test_what_the_others_do_is_their_sum() -> None:
    """All but the one that is told; of one alone nothing is left."""
    loads = {"main": _load(2, 500), "ssh": _load(1, 30), "third": _load(4, 7)}
    assert elsewhere(loads, "branch", "ssh") == _load(6, 507)
    assert elsewhere({"ssh": _load(1, 30)}, "branch", "ssh") == _load(0)
