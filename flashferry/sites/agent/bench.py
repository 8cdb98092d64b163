"""What orders are carried out with: the site's depot for plans and images; and the result of an order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from flashferry.api import FleetOptions, whole_fleet
from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.files import reading
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.catalogue.part import ProvenImage
from flashferry.depot.sync.filling import Interrupted, SyncProgress, check, never
from flashferry.depot.sync.source import Login, Source
from flashferry.depot.sync.syncing import sync_image
from flashferry.images.image import PlannedImage
from flashferry.images.manifest import MOST_PLAN_BYTES, plan_name
from flashferry.sites.agent.word_sender import WordSender
from flashferry.sites.settings import AgentSettings, SourceSettings
from flashferry.store.sites.agents import AgentDatabase

_LOG = logging.getLogger("flashferry.sites")


class SiteDepot:
    """The depot of a site. Called from several threads, of which one fetches.

    Args:
        folder: The catalogue's folder; made if missing.
        source: Where plans and images come from; None: they are put into the folder beforehand.

    Attributes:
        fetching: Progress of the image being fetched, or None.

    Raises:
        ConfigInvalid: The folder cannot be made, or the source's password cannot be read.
    """

    def __init__(self, folder: Path, source: SourceSettings | None) -> None:
        self.catalogue = CatalogueFolder(folder)
        self.fetching: SyncProgress | None = None
        self._settings = source
        self.catalogue.make()
        self._source()

    def plan(self, digest: str, *, interrupted: Interrupted = never) -> bytes:
        """Return the plan with a digest, not yet compared with it; raises what `Source.fetch_small` does.

        Raises:
            ConfigInvalid: There is no source, and the plan is not here.
        """
        name, source = plan_name(digest), self._source()
        if source is not None:
            return source.fetch_small(name, MOST_PLAN_BYTES, interrupted=interrupted)
        try:
            with reading(self.catalogue.path / name) as file:
                return file.read(MOST_PLAN_BYTES)
        except OSError as error:
            raise ConfigInvalid(
                f"{name}: expected it in {self.catalogue.path}: {error.strerror}",
                hint="Put it there, or name a [source] in agent.toml",
            ) from None

    def fetch(self, image: PlannedImage, *, interrupted: Interrupted = never) -> ProvenImage:
        """Return an image of a plan, proven in the catalogue; fetch what is missing.

        Args:
            image: The image.
            interrupted: Whether to stop; called many times a second.

        Raises:
            ConfigInvalid: It is not here, and there is no source.
            FlashferryError: What `sync_image` raises.
        """
        found = self.catalogue.proven(image.name) or self._laid_here(image, interrupted)
        if found is not None and found.sha512 == image.sha512:
            return found
        source = self._source()
        if source is None:
            raise ConfigInvalid(
                f"image {image.name}: expected it in {self.catalogue.path} with SHA-512 {image.sha512[:16]}..., found "
                + ("another one" if (self.catalogue.path / image.name).exists() else "none"),
                hint="Put it there, or name a [source] in agent.toml",
            )
        try:
            return sync_image(source, image, self.catalogue, self._note, interrupted).image
        finally:
            self.fetching = None

    def _laid_here(self, image: PlannedImage, interrupted: Interrupted) -> ProvenImage | None:
        with self.catalogue.locked():
            return self.catalogue.taken_in(image.name, image.sha512, on_read=lambda *_: check(interrupted))

    def _note(self, progress: SyncProgress) -> None:
        self.fetching = progress
        if progress.text:
            _LOG.warning("image %s: %s", progress.image, progress.text)

    def _source(self) -> Source | None:
        """Return the source with the login that its file has now: a new password needs no restart."""
        settings = self._settings
        if settings is None:
            return None
        return Source(url=settings.url, login=_login(settings), ca=settings.ca)


def _login(settings: SourceSettings) -> Login | None:
    if not settings.user or settings.password_file is None:
        return None
    try:
        password = settings.password_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(
            f"{settings.password_file}: expected the source's password, it cannot be read: {reason_of(error)}",
            hint="Check 'password_file' of [source] in agent.toml",
        ) from None
    return Login(username=settings.user, password=password)


class Bench(Struct, frozen=True, kw_only=True):
    """What orders are carried out with; `teller` sends reports, `ending` is set when the agent is to end."""

    settings: AgentSettings
    database: AgentDatabase
    depot: SiteDepot
    teller: WordSender
    ending: threading.Event

    def devices(self) -> frozenset[str]:
        """Return the names of all devices in the site's inventory.

        Raises:
            ConfigInvalid: The inventory is wrong.
        """
        options = FleetOptions(inventory=self.settings.runs.inventory, state_dir=self.settings.state)
        return frozenset(whole_fleet(options).inventory.hosts)


class End(Struct, frozen=True, kw_only=True):
    """The result of an order; `exit_code` is None if no command reported one, `data` are more details."""

    exit_code: int | None
    sentence: str
    data: Mapping[str, Any]
