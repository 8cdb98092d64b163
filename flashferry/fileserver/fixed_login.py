"""Fixed credentials for hand use: one user for every image, any number of times. Off by default.

Facts
-----

- A ticket's password has 95 random bits; one that a person chose has not. So guesses at a fixed login are counted per
  address in a book of their own, which no ticket and no successful login of another kind clears.
- A protocol without encryption shows user and password to everybody on the path. Fixed credentials are for a bench
  and a management network.
- Each transfer is put down to a ticket made for it at that moment, so it has a record and a verdict like any other.
"""

import re
import secrets
from dataclasses import dataclass, field

from flashferry.core.outside import keep_secret
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.tickets import TicketGrant, TicketRequest, checked_sources, seal
from flashferry.images.image import ImageFile

_IN_A_URL = re.compile(r"[A-Za-z0-9._~-]+")
_LEAST_PASSWORD = 8
_MOST_LETTERS = 64
_LIFETIME_S = 7 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLogin:
    """Fixed credentials as the operator gives them.

    Attributes:
        username: 1 to 64 letters, digits and `._~-`, which a URL carries unchanged (RFC 3986 2.3).
        password: 8 to 64 of the same.
        source_addresses: Addresses or networks clients must come from; empty allows any.
        site: Transfers of the same site share the site's cap; empty for none.
        link_bytes_per_s: What the clients' link is known to carry, see `TicketRequest`.
    """

    username: str
    password: str = field(repr=False)
    source_addresses: tuple[str, ...] = ()
    site: str = ""
    link_bytes_per_s: int | None = None

    def __post_init__(self) -> None:
        checked_sources("fixed login", self.source_addresses)
        for what, text, least in (("user", self.username, 1), ("password", self.password, _LEAST_PASSWORD)):
            if not (least <= len(text) <= _MOST_LETTERS and _IN_A_URL.fullmatch(text)):
                # The text itself is not shown: it may be the password, or typed into the wrong place.
                raise SettingsInvalid(
                    f"fixed login: expected a {what} of {least} to {_MOST_LETTERS} letters, digits and ._~-, "
                    f"which a URL carries unchanged, found {len(text)} characters",
                    hint="Take another, without blanks, umlauts and signs that a URL gives a meaning to",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedGrant:
    """Fixed credentials as the serving process knows them: without the password."""

    username: str = field(repr=False)
    salt_hex: str = field(repr=False)
    password_hash_hex: str = field(repr=False)
    images: tuple[ImageFile, ...]
    source_addresses: tuple[str, ...]
    site: str
    link_bytes_per_s: int | None = None

    def image(self, name: str) -> ImageFile | None:
        """Return an image by its exact name; None if there is no such image."""
        return next((image for image in self.images if image.name == name), None)

    def grant(self, image: ImageFile) -> TicketGrant:
        """Return a ticket for one transfer of an image, which no login uses."""
        return TicketGrant(
            ticket_id=secrets.token_hex(8),
            username="",
            salt_hex="",
            password_hash_hex="",
            image=image,
            request=TicketRequest(
                image_name=image.name,
                source_addresses=self.source_addresses,
                lifetime_s=_LIFETIME_S,
                tries=1,
                site=self.site,
                link_bytes_per_s=self.link_bytes_per_s,
            ),
        )


def admit(login: FixedLogin, images: tuple[ImageFile, ...]) -> FixedGrant:
    """Make of fixed credentials what the serving process may know."""
    keep_secret(login.password)
    salt_hex, password_hash_hex = seal(login.password)
    return FixedGrant(
        username=login.username,
        salt_hex=salt_hex,
        password_hash_hex=password_hash_hex,
        images=images,
        source_addresses=login.source_addresses,
        site=login.site,
        link_bytes_per_s=login.link_bytes_per_s,
    )
