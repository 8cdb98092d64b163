"""Checks of titles and comments that users enter; sites in words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from flashferry.service.errors import InvalidRequest

LONGEST_COMMENT = 2000
LONGEST_TITLE = 100


def checked_comment(comment: str) -> str:
    """Check a comment and return it stripped. Raises `InvalidRequest` above two thousand characters."""
    comment = comment.strip()
    if len(comment) > LONGEST_COMMENT:
        raise InvalidRequest(
            f"comment: expected at most {LONGEST_COMMENT:,} characters, found {len(comment):,}",
            hint="Shorten it",
        )
    return comment


def checked_title(title: str) -> str:
    """Check a title and return it stripped. Raises `InvalidRequest` unless it is one line of limited length."""
    title = " ".join(title.split())
    if len(title) > LONGEST_TITLE or any(unicodedata.category(one) in {"Cc", "Cs"} for one in title):
        raise InvalidRequest(
            f"title: expected one line of at most {LONGEST_TITLE} characters, found {len(title)} of them",
            hint="Give a shorter title",
        )
    return title


def sites_text(sites: Iterable[str]) -> str:
    """Return sites in words."""
    return ", ".join(site or "all sites (for devices without a site)" for site in sites)
