"""When a copy's slot is handed on: a little before its end, so that its site's link does not stand idle. Pure.

Behind a slot a device is snapshotted, tuned and told to copy, which takes seconds. Copies of a site that share its cap
end at about the same time, and without this the link would wait for all of their followers at once.
"""

HAND_OVER_S = 10.0
"""What a follower takes from its slot to its first byte where many do so at once: some ten commands in turn."""

_LEAST_SHARE = 0.8
"""Of the image, acknowledged: a small one is not handed on from its first second."""


def is_nearly_over(acked_bytes: int, size_bytes: int, rate_bytes_per_s: float) -> bool:
    """Tell whether a copy is about to end.

    Args:
        acked_bytes: What the device has.
        size_bytes: Size of the image.
        rate_bytes_per_s: Rate at present; 0 where it is not known or nothing moves.
    """
    if acked_bytes < _LEAST_SHARE * size_bytes:
        return False
    left_bytes = size_bytes - acked_bytes
    return left_bytes <= 0 or left_bytes <= HAND_OVER_S * rate_bytes_per_s
