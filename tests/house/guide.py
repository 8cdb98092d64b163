"""What of docs/architecture.md no file says of itself: the way of one image, and what a change has to touch."""

from __future__ import annotations

WAY = (
    "**Catalogue.** `flashferry/images/catalogue.py` knows name, size and digests of each image before anyone asks; "
    "`flashferry/images/published.py` holds them against what the vendor published.",
)

CHANGES: tuple[tuple[str, str], ...] = ()
"""What is changed, and the files that it touches."""
