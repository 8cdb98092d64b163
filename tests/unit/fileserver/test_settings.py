"""Settings and the sender's choice: refused with a sentence, or taken as they are."""

from pathlib import Path
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.settings import Limits, ListenerSettings, SenderProfile, ServerSettings
from flashferry.fileserver.socket_tuning import ChannelLimit, LossEstimate, choose_sender, first_candidates

LISTENER = ListenerSettings(protocol="nobody:LISTENS")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"listen_address": "localhost"},
            "listen_address: expected an IP address such as 192.0.2.1, found 'localhost'",
        ),
        ({"transports": ()}, "transports: expected at least one, found none"),
        ({"port": 70000}, "port: expected 0 to 65535, found 70000"),
        ({"process": "../main"}, "process: expected small letters, found '../main'"),
        ({"protocol": "os.system"}, "protocol: expected a name such as package.module:NAME, found 'os.system'"),
    ],
)
def test_wrong_listeners_are_one_sentence(wrong: dict[str, Any], message: str) -> None:
    """Each wrong value is refused with its name, what was expected and what was found."""
    with pytest.raises(SettingsInvalid, match=message):
        ListenerSettings(**{"protocol": "nobody:LISTENS", **wrong})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sample_interval_s": 0.01}, "sample_interval_s: expected 0.05 to 60"),
        ({"listeners": ()}, "listeners: expected at least one, found none"),
    ],
)
def test_wrong_settings_are_one_sentence(wrong: dict[str, Any], message: str) -> None:
    """Each wrong value is refused with its name, what was expected and what was found."""
    with pytest.raises(SettingsInvalid, match=message):
        ServerSettings(**{"image_paths": (Path("/x"),), "listeners": (LISTENER,), **wrong})


def test_listeners_are_grouped_by_process() -> None:
    """In the order in which they first come, each with its own listeners alone."""
    first, second = (ListenerSettings(protocol="nobody:LISTENS", process=name, port=21) for name in ("main", "other"))
    third = replace(first, port=80, transports=("x",))
    settings = ServerSettings(image_paths=(Path("/x"),), listeners=(first, replace(second, transports=("y",)), third))
    assert settings.processes == ("main", "other")
    assert settings.of_process("main").listeners == (first, third)


def test_a_server_in_another_s_place_takes_its_ports() -> None:
    """Each listener gets its own of them, in their order."""
    settings = ServerSettings(image_paths=(Path("/x"),), listeners=(LISTENER, LISTENER)).at_ports((2121, 8080))
    assert [listener.port for listener in settings.listeners] == [2121, 8080]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"congestion_control": "vegas"}, "expected one of auto, bbr, cubic, reno, system, found 'vegas'"),
        ({"cap_bytes_per_s": 10}, "cap_bytes_per_s: expected at least 1000"),
        ({"dscp": 64}, "dscp: expected 0 to 63"),
        ({"mss_bytes": 40}, "mss_bytes: expected 88 to 32767"),
        ({"give_up_after_s": 0}, "give_up_after_s: expected more than 0"),
    ],
)
def test_wrong_profiles_are_one_sentence(wrong: dict[str, Any], message: str) -> None:
    """Each wrong value of a profile is refused the same way."""
    with pytest.raises(SettingsInvalid, match=message):
        SenderProfile(**wrong)


def test_limits_must_be_positive() -> None:
    """A limit of nothing would let nobody in; only the delay of a refusal may be zero."""
    with pytest.raises(SettingsInvalid, match="sessions: expected more than 0, found 0"):
        Limits(sessions=0)
    assert Limits(failed_login_delay_s=0).failed_login_delay_s == 0


@pytest.mark.parametrize(
    ("asked", "sack", "scaling", "cap", "chosen", "reason"),
    [
        ("auto", True, True, True, "bbr", "SACK, a scaled window and a cap"),
        ("auto", False, True, True, "bbr", "a scaled window and a cap, though no SACK"),
        ("auto", False, True, False, "cubic", "no rate stated and no SACK; a search would lose too much"),
        ("auto", True, False, False, "cubic", "no rate stated; limited by an unscaled window"),
        ("auto", True, False, True, "cubic", "limited by an unscaled window"),
        ("auto", True, True, False, "bbr", "no rate stated: SACK, a scaled window and a pace found in the copy"),
        ("bbr", False, False, False, "bbr", "the profile asks for it"),
        ("reno", True, True, True, "reno", "the profile asks for it"),
        ("system", True, True, True, None, "the profile leaves it to the kernel"),
    ],
)
def test_the_sender_s_choice(asked: str, sack: bool, scaling: bool, cap: bool, chosen: str | None, reason: str) -> None:
    """BBR with a scaled window and a cap, or with SACK and a pace of its own; a profile that names one gets it."""
    choice = choose_sender(asked, sack=sack, window_scaling=scaling, cap_known=cap)
    assert (choice.congestion_control, choice.reason) == (chosen, reason)
    assert choice.finds_pace is (chosen == "bbr" and asked == "auto" and not cap)


def test_a_client_next_door_gets_cubic_where_no_rate_is_stated() -> None:
    """So near losses cost CUBIC nothing; a millisecond on, or under a cap, it is as elsewhere."""
    known = {"sack": True, "window_scaling": True}
    assert choose_sender("auto", **known, cap_known=False, rtt_s=0.001).congestion_control == "cubic"
    assert choose_sender("auto", **known, cap_known=False, rtt_s=0.003).congestion_control == "bbr"
    assert choose_sender("auto", **known, cap_known=True, rtt_s=0.001).congestion_control == "bbr"


@pytest.mark.parametrize(
    ("window_bytes", "most_bytes_per_s", "chosen"),
    [
        (131_072, 5_750_000, "cubic"),
        (1_100_000, 5_750_000, "cubic"),
        (1_200_000, 5_750_000, "bbr"),
        (131_072, 500_000, "bbr"),
        (131_072, None, "cubic"),
        (2_097_152, None, "bbr"),
    ],
)
def test_a_channel_that_is_narrower_than_the_path_keeps_cubic(
    window_bytes: int, most_bytes_per_s: int | None, chosen: str
) -> None:
    """Below twice what the path holds, or up to 128 KiB where nobody knows what it holds; losses may change it."""
    channel = ChannelLimit(window_bytes=window_bytes, most_bytes_per_s=most_bytes_per_s)
    choice = choose_sender(
        "auto", sack=True, window_scaling=True, cap_known=most_bytes_per_s is not None, rtt_s=0.1, channel=channel
    )
    assert choice.congestion_control == chosen
    assert ("limited by the SSH channel's window" in choice.reason) is (chosen == "cubic")
    assert choice.may_become_bbr is (chosen == "cubic" and most_bytes_per_s is not None)


@pytest.mark.parametrize(
    ("asked", "first"),
    [("auto", ("cubic", "reno")), ("bbr", ("bbr", "cubic", "reno")), ("reno", ("reno",)), ("system", ())],
)
def test_a_connection_begins_with_what_takes_no_pacing(asked: str, first: tuple[str, ...]) -> None:
    """CUBIC where the choice comes later, whatever the host's default; what the profile names or leaves stays so."""
    assert first_candidates(asked) == first


def _sight(**known: Any) -> LossEstimate:
    usual = {"losses": 0, "repairs": 0, "lost_share": 0.0, "window_bytes": 1_250_000, "rtt_s": 0.1, "mss_bytes": 1460}
    return LossEstimate(**{"acked_bytes": 0, **usual, **known})


@pytest.mark.parametrize(
    ("losses", "share", "window_bytes", "rtt_s", "expected"),
    [
        (30, 0.01, 64_240, 0.01, True),
        (30, 0.001, 64_240, 0.1, True),
        (30, 0.0001, 64_240, 0.01, False),
        (30, 0.0001, 16_060, 0.1, False),
        (2, 0.01, 64_240, 0.01, False),
        (30, 0.01, 64_240, None, False),
        (0, 0.0, 64_240, 0.1, False),
    ],
)
def test_when_losses_hold_back_a_flow_with_a_small_window(
    losses: int, share: float, window_bytes: int, rtt_s: float | None, expected: bool
) -> None:
    """The model of CUBIC under such losses is held against the window; a loss or two may be chance."""
    sight = _sight(losses=losses, lost_share=share, window_bytes=window_bytes, rtt_s=rtt_s)
    assert sight.holds_cubic_back() is expected


@pytest.mark.parametrize(
    ("losses", "repairs", "acked_segments", "rtt_s", "least", "most"),
    [
        (0, 0, 0, 0.1, 0.5e6, 1.5e6),
        (0, 0, 10_000, 0.3, 6e6, 60e6),
        (10, 10, 10_000, 0.1, 6e6, 60e6),
        (100, 100, 10_000, 0.1, 0.7e6, 1.46e6),
        (100, 100, 10_000, 0.01, 7e6, 14.6e6),
        (900, 100, 10_000, 0.1, 0.2e6, 0.5e6),
        (9000, 9000, 10_000, 0.1, 0.2e6, 0.3e6),
    ],
)
def test_the_pace_that_repairs_keep_up_with(
    losses: int, repairs: int, acked_segments: int, rtt_s: float, least: float, most: float
) -> None:
    """Less than one loss a round trip; slower still where timeouts repeat much, but never a crawl; fast where clean."""
    sight = _sight(losses=losses, repairs=repairs, rtt_s=rtt_s, acked_bytes=1460 * acked_segments)
    pace = sight.repairable_bytes_per_s()
    assert pace is not None
    assert least <= pace <= most


def test_no_pace_without_a_known_path() -> None:
    """Before the round-trip time or the segment size is known nothing is slowed."""
    assert _sight(rtt_s=None).repairable_bytes_per_s() is None
    assert _sight(mss_bytes=0).repairable_bytes_per_s() is None


def test_what_is_tried_when_the_kernel_refuses() -> None:
    """BBR falls to CUBIC and then Reno, which every kernel has; the kernel's default is never replaced."""
    assert choose_sender("bbr", sack=True, window_scaling=True, cap_known=True).candidates == ("bbr", "cubic", "reno")
    assert choose_sender("cubic", sack=True, window_scaling=True, cap_known=True).candidates == ("cubic", "reno")
    assert choose_sender("system", sack=True, window_scaling=True, cap_known=True).candidates == ()
