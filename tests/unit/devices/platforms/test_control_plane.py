"""The policer of a Catalyst's control plane: named where a copy's rate is its own, and nowhere else."""

import pytest

from flashferry.devices.platforms.control_plane import CLASS, named, policed_packets_per_s
from flashferry.tcp.verdict import Verdict, VerdictKind

_POLICER = Verdict(
    kind=VerdictKind.POLICER,
    share=0.9,
    sentence="Policer, 90% of the time: a policer.",
    evidence=("1.43 MB/s",),
    advice="Cap the sender at about 1.33 MB/s; 8.0% was sent for nothing.",
)


@pytest.mark.parametrize(
    ("model", "rate", "mss", "limit"),
    [
        ("C9300-48P", 1.4e6, 1460, 1000),
        ("C9300-24UX", 1.43e6, 1448, 1000),
        ("C9200CX-12P-2X2G", 5.6e6, 1460, 4000),
        ("C9KV-UADP-8P", 1.4e6, 1460, 1000),
        ("C9300-48P", 2.5e6, 1460, None),
        ("C9300-48P", 7.3e6, 1460, None),
        ("C9300-48P", 1.4e6, None, None),
        ("C9800-L-C-K9", 1.4e6, 1460, None),
        ("ISR4331/K9", 1.4e6, 1460, None),
        ("", 1.4e6, 1460, None),
    ],
)
def test_the_policer_is_known_by_model_and_packets_a_second(
    model: str, rate: float, mss: int | None, limit: int | None
) -> None:
    """Only on a Catalyst 9000 switch, and only where the rate is one of its defaults; a controller is no switch."""
    assert policed_packets_per_s(model, rate, mss) == limit


def test_the_class_is_named_with_its_figures_and_is_left_alone() -> None:
    """Sentence, evidence and advice have the class and the packets; the advice says never to change it."""
    found = named(_POLICER, model="C9300-48P", rate_bytes_per_s=1.4e6, mss_bytes=1460)
    assert found.sentence == (
        "Policer, 90% of the time: a policer; most likely the C9300-48P's own control plane, class "
        f"'{CLASS}', which lets 1000 packets a second through: 1000 x 1460 bytes = 1.46 MB/s."
    )
    assert found.advice.startswith(_POLICER.advice)
    assert f"Never change '{CLASS}'" in found.advice
    assert found.evidence == ("1.43 MB/s", "959 full packets a second; policer's default 1000")


@pytest.mark.parametrize("kind", [kind for kind in VerdictKind if kind is not VerdictKind.POLICER])
def test_what_is_no_policer_stays_what_it_is(kind: VerdictKind) -> None:
    """A link that happens to carry as much is no control plane."""
    verdict = Verdict(kind=kind, share=1.0, sentence="x.", evidence=())
    assert named(verdict, model="C9300-48P", rate_bytes_per_s=1.4e6, mss_bytes=1460) is verdict
