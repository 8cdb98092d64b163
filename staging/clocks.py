"""Three clocks on one copy: the device's, the server's and ours. Pure.

They measure different things. The device's line counts from its open file to its closed one, flash writing included;
the server's from the first byte to the last acknowledgement; ours from the command to the prompt, the dialogue
included. Where they part by more than the dialogue explains, that is told, and in which direction.
"""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 0.10
LEAST_S = 2.0
"""Clocks disagree when they differ by more than both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """How long a copy took, in seconds; None where a clock has nothing to say.

    Attributes:
        device_s: By the device's `bytes copied` line.
        server_s: First byte to last acknowledgement, by our server.
        wall_s: Command to prompt, by our own clock.
        disagreement: What differs and what that means, in a sentence; empty where they agree.
    """

    device_s: float | None
    server_s: float | None
    wall_s: float | None
    disagreement: str = ""


def compare_clocks(*, device_s: float | None, server_s: float | None, wall_s: float | None) -> Clocks:
    """Return the three clocks and what they disagree about."""
    said = []
    if device_s is not None and server_s is not None and _differ(device_s, server_s):
        meaning = (
            "the device went on behind the last byte, writing flash or checking"
            if device_s > server_s
            else "the device's clock does not count all of the transfer"
        )
        said.append(f"the device says {device_s:.1f} s, our server {server_s:.1f} s: {meaning}")
    if device_s is not None and wall_s is not None and _differ(device_s, wall_s):
        meaning = (
            "the rest is login, questions and the way to the prompt"
            if wall_s > device_s
            else "its clock runs faster than time"
        )
        said.append(f"the device says {device_s:.1f} s, our clock {wall_s:.1f} s from command to prompt: {meaning}")
    return Clocks(device_s=device_s, server_s=server_s, wall_s=wall_s, disagreement="; ".join(said))


def _differ(one_s: float, other_s: float) -> bool:
    apart_s = abs(one_s - other_s)
    return apart_s > LEAST_S and apart_s > SHARE * max(one_s, other_s)
