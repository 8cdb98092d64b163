"""Links without a cap: what is said of them, and when they are refused."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import CongestionControl, HostCapabilities
from flashferry.model.link_rates import LinkRates, pace_notice
from inventory.host_view import HostView


def device(name: str, site: str | None = "a", rate_bps: float | None = None) -> HostView:
    return HostView(
        name=name,
        address="r1.example.net",
        port=22,
        platform="ios",
        site=site,
        link_rate_bps=rate_bps,
        cap_share=0.8,
        server_address=None,
        vrf=None,
    )


def capabilities(*, bbr: bool = True, paces: bool = True) -> HostCapabilities:
    return HostCapabilities(
        kernel="6.1",
        default_congestion_control="cubic",
        congestion_controls=(CongestionControl(name="bbr", granted=bbr), CongestionControl(name="cubic", granted=True)),
        saves_syn=True,
        paces=paces,
        send_buffer_ceiling_bytes=None,
        open_files=1024,
    )


def test_links_with_a_stated_rate_ask_nothing_of_this_host() -> None:
    """Their caps hold under any congestion control, and nothing is said."""
    everyone = [device("r1", rate_bps=8e6), device("r2", site=None, rate_bps=8e6)]
    assert not pace_notice(everyone, LinkRates(), uncapped=False, probe=lambda: pytest.fail("asked"))


def test_copies_that_find_their_pace_are_no_reason_to_refuse() -> None:
    """Whose link it is stands in one line, a site once, and no more than a few by name."""
    everyone = [device("r1"), device("r2"), device("r3", site=None), *(device(f"x{n}", site=f"s{n}") for n in range(9))]
    told = pace_notice(everyone, LinkRates(), uncapped=False, probe=capabilities)
    assert told == (
        "no link rate is stated for site 'a', device r3, site 's0' and 8 more: copies find their pace themselves; "
        "'link_rate_bps' in the inventory sets a cap"
    )


@pytest.mark.parametrize(
    ("lacks", "words"),
    [({"bbr": False}, "this host's kernel grants us no BBR"), ({"paces": False}, "this host's kernel does not pace")],
)
def test_neither_cap_nor_pace_is_refused_unless_insisted_on(lacks: dict[str, bool], words: str) -> None:
    """The sentence says what is missing on both sides; with the option the same is only told."""
    with pytest.raises(ConfigInvalid, match=f"^site 'a': data key 'link_rate_bps': .*{words}") as caught:
        pace_notice([device("r1")], LinkRates(), uncapped=False, probe=lambda: capabilities(**lacks))
    assert "--uncapped" in str(caught.value.hint)
    told = pace_notice([device("r1")], LinkRates(), uncapped=True, probe=lambda: capabilities(**lacks))
    assert (
        told == f"no link rate is stated for site 'a', and {words}: copies have neither a cap nor a pace (--uncapped)"
    )


def test_one_link_without_a_rate_is_enough() -> None:
    """Others' caps are no help to its neighbours."""
    everyone = [device("r1", site="b", rate_bps=8e6), device("r2")]
    with pytest.raises(ConfigInvalid, match=r"^site 'a': "):
        pace_notice(everyone, LinkRates(), uncapped=False, probe=lambda: capabilities(bbr=False))
