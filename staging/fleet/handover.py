"""When a copy's slot is handed on: a little before its end, so that its site's link does not stand idle. Pure.

Behind a slot a device is snapshotted, tuned and told to copy, which takes seconds; one that was logged out while it
waited has to be logged in and checked before that. Copies of a site that share its cap end at about the same time, and
without this the link would wait for all of their followers at once.
"""

HAND_OVER_S = 10.0
"""What a follower takes from its slot to its first byte where many do so at once: some ten commands in turn."""

EXPECT_S = 45.0
"""What it takes besides to be logged in and checked where eighty are at once on a small machine, with a margin; less
than the time after which one who waits is logged out."""

_LEAST_SHARE = 0.8
"""Of the image, acknowledged: a small one is not handed on from its first second ..."""

_LEAST_SHARE_EXPECTED = 0.5
"""... nor are its followers told to make ready."""


def is_nearly_over(acked_bytes: int, size_bytes: int, rate_bytes_per_s: float) -> bool:
    """Tell whether a copy is about to end: its slot is handed on.

    Args:
        acked_bytes: What the device has.
        size_bytes: Size of the image.
        rate_bytes_per_s: Rate at present; 0 where it is not known or nothing moves.
    """
    return _ends_within(HAND_OVER_S, _LEAST_SHARE, acked_bytes, size_bytes, rate_bytes_per_s)


def is_soon_over(acked_bytes: int, size_bytes: int, rate_bytes_per_s: float) -> bool:
    """Tell whether a copy ends so soon that who waits for its slot had better make ready; see `is_nearly_over`."""
    return _ends_within(EXPECT_S, _LEAST_SHARE_EXPECTED, acked_bytes, size_bytes, rate_bytes_per_s)


def _ends_within(
    seconds: float, least_share: float, acked_bytes: int, size_bytes: int, rate_bytes_per_s: float
) -> bool:
    if acked_bytes < least_share * size_bytes:
        return False
    left_bytes = size_bytes - acked_bytes
    return left_bytes <= 0 or left_bytes <= seconds * rate_bytes_per_s
