"""What `auto` does to a connection: the kernel's options are set on a stand-in that notes them."""

from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.fileserver import socket_tuning as module
from flashferry.fileserver.rate_limits import Cap, SitePace
from flashferry.fileserver.settings import SenderProfile
from flashferry.fileserver.socket_tuning import ChannelLimit, LossEstimate, Tuning
from flashferry.tcp.pacing import Phase
from flashferry.tcp.tcp_info import TcpInfo, parse_tcp_info

_CAP = Cap(bytes_per_s=5_960_000, source="site")
_SACK, _SCALING = 2, 4


class _Kernel:
    """Notes the congestion control and the pacing cap that are asked for."""

    def __init__(self) -> None:
        self.control = "cubic"
        self.asked: list[str] = []
        self.caps: list[int | None] = []

    def set_congestion_control(self, _: Any, name: str) -> str:
        self.control = name
        self.asked.append(name)
        return ""

    def set_cap(self, _: Any, cap_bytes_per_s: int | None) -> bool:
        self.caps.append(cap_bytes_per_s)
        return True


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> _Kernel:
    noted = _Kernel()
    monkeypatch.setattr(module.sockets, "set_congestion_control", noted.set_congestion_control)
    monkeypatch.setattr(module.sockets, "set_cap", noted.set_cap)
    monkeypatch.setattr(module.sockets, "congestion_control", lambda _: noted.control)
    monkeypatch.setattr(module.sockets, "cap", lambda _: noted.caps[-1])
    monkeypatch.setattr(module.sockets, "set_notsent_lowat", lambda *_: None)
    monkeypatch.setattr(module.sockets, "set_unacked_limit", lambda *_: None)
    return noted


def _info(options: int) -> TcpInfo:
    raw = bytearray(280)
    raw[5] = options
    return parse_tcp_info(bytes(raw))


def _tuning(options: int, control: str = "auto") -> Tuning:
    profile = SenderProfile(congestion_control=control)
    tuning = Tuning(None, profile, _info(options), cap_known=True)  # type: ignore[arg-type]
    tuning.apply_cap(_CAP)
    return tuning


def _sight(*, losses: int, acked_segments: int, rtt_s: float = 0.1, window_bytes: int = 1_250_000) -> LossEstimate:
    return LossEstimate(
        losses=losses,
        repairs=losses,
        lost_share=losses / max(acked_segments, 1),
        window_bytes=window_bytes,
        rtt_s=rtt_s,
        mss_bytes=1460,
        acked_bytes=acked_segments * 1460,
    )


def test_bbr_without_sack_begins_slowly_and_is_let_go_where_all_arrives(kernel: _Kernel) -> None:
    """The pace begins below the cap, grows with what arrived, and ends at the cap, not above it."""
    tuning = _tuning(_SCALING)
    for acked in (0, 100, 300, 10_000):
        tuning.reconsider(_sight(losses=0, acked_segments=acked))
    paces = [pace for pace in kernel.caps[1:] if pace is not None]
    assert kernel.control == "bbr"
    assert paces == sorted(paces)
    assert paces[0] < _CAP.bytes_per_s == paces[-1]
    assert "slowed" not in tuning.report().reason


def test_bbr_without_sack_is_slowed_where_much_is_lost_and_says_so(kernel: _Kernel) -> None:
    """At 1 % and 100 ms no more than about one loss falls into a round trip, under BBR still; the record has why."""
    tuning = _tuning(_SCALING)
    tuning.reconsider(_sight(losses=20, acked_segments=2000))
    pace = kernel.caps[-1]
    assert pace is not None
    assert 0.5 < pace * 0.1 / 1460 * 0.01 < 1.5
    assert kernel.control == "bbr"
    assert tuning.report().reason.endswith(
        f"slowed to {pace / 1e6:.2f} MB/s, for without SACK one loss is repaired per round trip"
    )


def test_a_slowed_flow_stays_slow_when_its_cap_changes(kernel: _Kernel) -> None:
    """A site's cap that is divided anew lifts nothing that losses ask for, and the least of both holds."""
    tuning = _tuning(_SCALING)
    tuning.reconsider(_sight(losses=20, acked_segments=2000))
    slow = kernel.caps[-1]
    tuning.apply_cap(Cap(bytes_per_s=3_000_000, source="site"))
    assert kernel.caps[-1] == slow
    tuning.apply_cap(Cap(bytes_per_s=100_000, source="site"))
    assert kernel.caps[-1] == 100_000


def test_giving_bbr_up_ends_the_slow_pace(kernel: _Kernel) -> None:
    """CUBIC finds its own pace under losses, so that only the cap is left, and BBR does not come back."""
    tuning = _tuning(_SCALING)
    tuning.reconsider(_sight(losses=200, acked_segments=2000))
    tuning.give_up_bbr()
    tuning.reconsider(_sight(losses=200, acked_segments=2000))
    assert (kernel.control, kernel.caps[-1]) == ("cubic", _CAP.bytes_per_s)


@pytest.mark.parametrize(
    ("options", "control", "early"),
    [(_SCALING, "auto", True), (0, "auto", True), (_SACK | _SCALING, "auto", False), (_SCALING, "bbr", False)],
)
def test_who_is_looked_at_early(kernel: _Kernel, options: int, control: str, early: bool) -> None:
    """Only where losses change something, and there they do: without SACK or scaling, and where `auto` is asked for."""
    tuning = _tuning(options, control)
    assert tuning.samples_early is early
    tuning.reconsider(_sight(losses=20, acked_segments=2000))
    assert (kernel.caps[-1] != _CAP.bytes_per_s) is early


def test_losses_turn_a_flow_with_an_unscaled_window_to_bbr_once(kernel: _Kernel) -> None:
    """With SACK it then runs at the cap and needs no more early looks."""
    tuning = _tuning(_SACK)
    assert kernel.control == "cubic"
    tuning.reconsider(_sight(losses=20, acked_segments=2000, window_bytes=64_240, rtt_s=0.01))
    assert (kernel.control, kernel.caps) == ("bbr", [_CAP.bytes_per_s])
    assert not tuning.samples_early


def _through_channel(window_bytes: int, cap: Cap = _CAP, control: str = "auto") -> Tuning:
    info = replace(_info(_SACK | _SCALING), snd_mss_bytes=1460, rtt_us=100_000, min_rtt_us=100_000)
    channel = ChannelLimit(window_bytes=window_bytes, most_bytes_per_s=cap.bytes_per_s)
    tuning = Tuning(None, SenderProfile(congestion_control=control), info, cap_known=True, channel=channel)  # type: ignore[arg-type]
    tuning.apply_cap(cap)
    return tuning


def test_a_narrow_channel_is_not_paced_by_a_cap_that_it_cannot_reach(kernel: _Kernel) -> None:
    """Pacing would hold back what the window lets out; the record has the cap, which holds all the same."""
    tuning = _through_channel(8192)
    assert (kernel.control, kernel.caps) == ("cubic", [])
    assert tuning.report().cap_bytes_per_s == _CAP.bytes_per_s


@pytest.mark.parametrize(("window_bytes", "control"), [(1_000_000, "auto"), (2_000_000, "auto"), (8192, "bbr")])
def test_a_cap_that_the_channel_would_pass_is_the_kernel_s(kernel: _Kernel, window_bytes: int, control: str) -> None:
    """A window that allows more than the cap, and BBR, which paces anyway."""
    _through_channel(window_bytes, control=control)
    assert kernel.caps == [_CAP.bytes_per_s]


def test_a_cap_that_falls_below_the_channel_s_rate_is_put_in_force(kernel: _Kernel) -> None:
    """Others of the site begin: the share is less than the window allows, and goes to the kernel from then on."""
    tuning = _through_channel(8192)
    tuning.apply_cap(Cap(bytes_per_s=50_000, source="site"))
    tuning.apply_cap(_CAP)
    assert kernel.caps == [50_000, _CAP.bytes_per_s]


@pytest.mark.parametrize(("grown_bytes", "control"), [(800_000, "cubic"), (4_000_000, "bbr")])
def test_a_channel_that_is_widened_in_mid_flow_is_capped_then(kernel: _Kernel, grown_bytes: int, control: str) -> None:
    """Some clients open narrow and widen at once; one that is wide enough for BBR gets it too."""
    tuning = _through_channel(8192)
    sight = replace(_sight(losses=0, acked_segments=10), channel_window_bytes=grown_bytes)
    tuning.reconsider(sight)
    tuning.reconsider(sight)
    assert (kernel.control, kernel.caps) == (control, [_CAP.bytes_per_s])


def test_losses_turn_a_flow_through_a_narrow_channel_to_bbr(kernel: _Kernel) -> None:
    """It is paced then, by the cap too."""
    tuning = _through_channel(131_072)
    assert tuning.samples_early
    tuning.reconsider(_sight(losses=20, acked_segments=2000, window_bytes=131_072))
    assert (kernel.control, kernel.caps) == ("bbr", [_CAP.bytes_per_s])


def _finding(kernel: _Kernel, site: SitePace, *, control: str = "auto") -> Tuning:
    info = replace(_info(_SACK | _SCALING), snd_mss_bytes=1460, rtt_us=100_000, min_rtt_us=100_000)
    tuning = Tuning(None, SenderProfile(congestion_control=control), info, cap_known=False)  # type: ignore[arg-type]
    if tuning.wants_pace:
        tuning.find_pace(site, info, 0.0)
        tuning.apply_cap(None)
    return tuning


def test_without_a_rate_the_pace_is_found_under_bbr(kernel: _Kernel) -> None:
    """The kernel is told a pace from the first byte on, and the record calls it the copy's own and no cap."""
    tuning = _finding(kernel, SitePace())
    report = tuning.report()
    assert kernel.control == "bbr"
    assert kernel.caps[-1] == report.pace_bytes_per_s == 438_000
    assert (report.cap_bytes_per_s, report.cap_source, report.found_link_bytes_per_s) == (None, "", None)
    assert report.reason == "no rate stated: SACK, a scaled window and a pace found in the copy; its rate was not found"


def test_without_bbr_there_is_no_pace_and_the_reason_is_told(kernel: _Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUBIC finds its own pace; what the kernel refused stands in the record."""

    def refuse(_: Any, name: str) -> str:
        return "bbr is not in this kernel (modprobe tcp_bbr)" if name == "bbr" else ""

    monkeypatch.setattr(module.sockets, "set_congestion_control", refuse)
    tuning = _finding(kernel, SitePace())
    assert not tuning.wants_pace
    assert kernel.caps == []
    assert tuning.check_pace(_info(_SACK), 1.0) is None
    assert tuning.report().reason.endswith("bbr is not in this kernel (modprobe tcp_bbr)")


def test_a_profile_that_names_bbr_finds_no_pace(kernel: _Kernel) -> None:
    """What was asked for by name is left alone."""
    assert not _finding(kernel, SitePace(), control="bbr").wants_pace


def test_beside_somebody_else_it_goes_on_under_cubic_and_comes_back(kernel: _Kernel) -> None:
    """The kernel is asked for the change, and the record says how it ended."""
    tuning = _finding(kernel, SitePace())
    tuning._follow(1_000_000, Phase.YIELD)
    assert (kernel.control, kernel.caps[-1]) == ("cubic", 1_000_000)
    assert "at the end CUBIC, for another flow's queue stood on it" in tuning.report().reason
    tuning._follow(900_000, Phase.HOLD)
    assert (kernel.control, kernel.caps[-1]) == ("bbr", 900_000)


def test_a_cap_that_comes_later_holds_beside_the_pace(kernel: _Kernel) -> None:
    """The least of both; when it is lifted the pace is left."""
    tuning = _finding(kernel, SitePace())
    tuning.apply_cap(Cap(bytes_per_s=100_000, source="site"))
    assert kernel.caps[-1] == 100_000
    tuning.apply_cap(None)
    assert kernel.caps[-1] == 438_000


def test_giving_bbr_up_ends_the_search(kernel: _Kernel) -> None:
    """Where far too much is sent again CUBIC goes on without a pace, and no later decision changes that."""
    site = SitePace()
    tuning = _finding(kernel, site)
    tuning.give_up_bbr()
    tuning._follow(1_000_000, Phase.HOLD)
    assert (kernel.control, kernel.caps[-1], site.copies) == ("cubic", None, 0)


def test_where_nothing_can_be_seen_bbr_begins_anew_without_a_pace(kernel: _Kernel) -> None:
    """No pace is in force, its own estimate is forgotten, once, and the record says why there was none at the end."""
    tuning = _finding(kernel, SitePace())
    tuning._follow(1_000_000, Phase.HOLD)
    kernel.asked.clear()
    tuning._follow(10**10, Phase.FREE)
    tuning._follow(10**10, Phase.FREE)
    assert (kernel.asked, kernel.caps[-1]) == (["cubic", "bbr"], None)
    report = tuning.report()
    assert report.pace_bytes_per_s is None
    assert "without a pace, for this host or the path delays what is sent" in report.reason
    tuning._follow(2_000_000, Phase.SEARCH)
    assert (kernel.control, kernel.caps[-1]) == ("bbr", 2_000_000)
