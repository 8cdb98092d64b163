"""What the transfers of a site have moved together, so that each can tell what the others had meanwhile. No clock."""


class _Site:
    """One site's transfers: how many run, and what they have moved since the first of them began."""

    def __init__(self) -> None:
        self.members = 0
        self.moved_bytes = 0


class Passage:
    """One transfer among those of its site.

    Args:
        traffic: Of all sites.
        name: Its site; empty where it shares its link with nobody we know of.
    """

    def __init__(self, traffic: "SiteTraffic", name: str) -> None:
        self._traffic, self._name = traffic, name
        self._site = traffic.enter(name)
        self._before_bytes = self._site.moved_bytes
        self._own_bytes = 0

    def note(self, acked_bytes: int) -> None:
        """Take in how much of this transfer has been acknowledged so far."""
        self._site.moved_bytes += acked_bytes - self._own_bytes
        self._own_bytes = acked_bytes

    @property
    def beside_bytes(self) -> int:
        """What the site's other transfers have moved since this one began."""
        return max(0, self._site.moved_bytes - self._before_bytes - self._own_bytes)

    def leave(self) -> None:
        """End; what others had until now can still be asked."""
        self._traffic.leave(self._name)


class SiteTraffic:
    """The sites with transfers under way."""

    def __init__(self) -> None:
        self._sites: dict[str, _Site] = {}

    def enter(self, name: str) -> _Site:
        """Count one more transfer of a site; one of no site is by itself."""
        site = self._sites.setdefault(name, _Site()) if name else _Site()
        site.members += 1
        return site

    def leave(self, name: str) -> None:
        """Count one less; a site without any is forgotten."""
        site = self._sites.get(name)
        if site is not None:
            site.members -= 1
            if not site.members:
                del self._sites[name]
