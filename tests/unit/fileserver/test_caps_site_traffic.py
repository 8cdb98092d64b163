"""What the others of a site had while a transfer ran."""

from flashferry.fileserver.rate_limits import SiteMember, SiteTraffic


def test_what_the_others_moved_meanwhile_is_counted() -> None:
    """Bytes of the same site since the transfer began, its own and those before it left out, also after it left."""
    traffic = SiteTraffic()
    first = SiteMember(traffic, "branch")
    first.note(500)
    second, elsewhere = SiteMember(traffic, "branch"), SiteMember(traffic, "island")
    first.note(800)
    second.note(100)
    elsewhere.note(9000)
    assert (first.beside_bytes, second.beside_bytes, elsewhere.beside_bytes) == (100, 300, 0)
    first.leave()
    second.note(150)
    assert (first.beside_bytes, second.beside_bytes) == (150, 300)


def test_a_site_is_forgotten_with_its_last_transfer() -> None:
    """A later transfer begins at nothing, and no site stays in memory for ever."""
    traffic = SiteTraffic()
    for _ in range(2):
        one, other = SiteMember(traffic, "branch"), SiteMember(traffic, "branch")
        one.note(700)
        assert other.beside_bytes == 700
        one.leave()
        other.leave()
        assert not traffic._sites


def test_transfers_of_no_site_have_nobody_beside_them() -> None:
    """Each is on a link of its own, as far as anybody knows."""
    traffic = SiteTraffic()
    one, other = SiteMember(traffic, ""), SiteMember(traffic, "")
    one.note(700)
    assert (one.beside_bytes, other.beside_bytes) == (0, 0)
    one.leave()


def test_what_other_processes_moved_meanwhile_is_beside_it() -> None:
    """As of a transfer here; what they moved before, or before they began anew, is not, and is not told as ours."""
    traffic = SiteTraffic()
    traffic.put_elsewhere("branch", 400)
    one = SiteMember(traffic, "branch")
    one.note(50)
    traffic.put_elsewhere("branch", 1000)
    assert (one.beside_bytes, traffic.moved_bytes("branch")) == (600, 50)
    traffic.put_elsewhere("branch", 0)
    traffic.put_elsewhere("branch", 30)
    assert one.beside_bytes == 630
    one.leave()
    assert traffic.moved_bytes("branch") == 0
