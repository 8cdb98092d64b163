"""Which cap holds, and how a site's is shared."""

from flashferry.fileserver.caps import Cap, SiteCaps, given_cap, least_cap


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
