"""Golden images: the image that a model should run, at all sites or at one."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Mapping

from flashferry.images.image_platform_match import Fits, Platform, image_fit
from flashferry.service.errors import Conflict, InvalidRequest, NotFound, ServiceError
from flashferry.service.images.upload import found
from flashferry.service.images.verification import why_not_usable, why_not_what_it_says
from flashferry.service.principal import EVERYWHERE, Actor
from flashferry.service.service import Service
from flashferry.store.service import images as store
from flashferry.store.service.images import Golden, StoredImage

_MODEL = re.compile(r"[A-Za-z0-9][\w./+-]{0,63}", re.ASCII)
_LONGEST_SITE = 100


def choose(service: Service, actor: Actor, model: str, site: str, image: str) -> Golden:
    """Set the golden image of a model at a site; `*` is for all sites without one of their own.

    Raises:
        NotFound: There is no such image.
        Conflict: The image is not usable, is for another platform, or contradicts the name inside its file.
    """
    model, site = checked_model(model), checked_site(site)
    new = Golden(model=model, site=site, image=image, by=actor.name, at=service.moment())
    with service.deciding(actor, "golden.set", object_of(model, site)) as database:
        why = why_not_usable(database, image)
        if why := why or why_not_for(found(database, image), model):
            raise Conflict(
                f"golden image of {model}: {why}",
                hint="Choose an image for that model that is published, or approved by an admin",
            )
        before = store.golden_of(database, model, site)
        store.set_golden(database, new)
        was = None if before is None else {"image": before.image}
        service.note(database, actor, "golden.set", object_of(model, site), before=was, after={"image": image})
    return new


def unchoose(service: Service, actor: Actor, model: str, site: str) -> None:
    """Remove the golden image of a model. Raises `NotFound` if it has none."""
    model, site = checked_model(model), checked_site(site)
    with service.database.writing() as database:
        before = store.golden_of(database, model, site)
        if before is None:
            raise _nothing(model, site)
        store.remove_golden(database, model, site)
        service.note(database, actor, "golden.removed", object_of(model, site), before={"image": before.image})


def golden_for(service: Service, model: str, site: str) -> Golden:
    """Return the golden image of a model at a site, else the one for all sites. Raises `NotFound`."""
    model, site = checked_model(model), checked_site(site)
    with service.database.reading() as database:
        golden = store.golden_of(database, model, site) or store.golden_of(database, model, EVERYWHERE)
    if golden is None:
        raise _nothing(model, site)
    return golden


def golden_rules(database: sqlite3.Connection, sites: Collection[str]) -> str:
    """Return the golden images as image rules for `flashferry plan --image-rules`.

    Rules cannot name a site, so each model must have the same golden image at all planned `sites` (empty: all).

    Raises:
        Conflict: No model has a golden image there, a model has several or lacks one at some sites, or one is not
            usable.
    """
    of_model: dict[str, dict[str, str]] = {}
    for one in store.golden_images(database):
        of_model.setdefault(one.model, {})[one.site] = one.image
    chosen = {model: _one_of(model, images, sites) for model, images in of_model.items()}
    rules = [{"model": model, "image": image} for model, image in chosen.items() if image is not None]
    if not rules:
        raise _no_rules("expected one of some model at the sites that are planned, found none")
    for image in dict.fromkeys(rule["image"] for rule in rules):
        if why := why_not_usable(database, image):
            raise _no_rules(why)
    return json.dumps({"rules": rules}, indent=1) + "\n"


def _one_of(model: str, images: Mapping[str, str], sites: Collection[str]) -> str | None:
    """Return the image that a model has at all given sites; None if it has none at any."""
    for_all = images.get(EVERYWHERE)
    # The sites without a golden image of their own count as one more site.
    at = {site: images.get(site, for_all) for site in sites or {*images, EVERYWHERE}}
    if len(set(at.values())) > 1:
        details = ", ".join(f"{image or 'none'} at {site}" for site, image in sorted(at.items()))
        details = details.replace(f"at {EVERYWHERE}", "at all others")
        raise _no_rules(f"expected one for {model} at all sites that are planned, found {details}")
    return next(iter(at.values()))


def _no_rules(why: str) -> ServiceError:
    return Conflict(
        f"golden images: {why}",
        hint="Create a plan for each site, or check the golden images on the page Images",
    )


def why_not_for(image: StoredImage, model: str) -> str:
    """Return why an image does not fit a model; empty if it fits or that is unknown."""
    if why := why_not_what_it_says(image.name, image.inside):
        return why
    fit = image_fit(image.name, image.inside, Platform(models=(model,)))
    return fit.reason if fit.fits is Fits.NO else ""


def object_of(model: str, site: str) -> str:
    """Return the audit object of a golden image."""
    return f"golden:{model}@{site}"


def checked_model(model: str) -> str:
    """Check a model name and return it in capitals. Raises `InvalidRequest`."""
    if not _MODEL.fullmatch(model):
        raise InvalidRequest(
            "model: expected one as devices print it, of at most 64 letters, digits and '. _ / + -', "
            f"found {model[:70]!r}",
            hint="'flashferry check' prints the models of devices",
        )
    return model.upper()


def checked_site(site: str) -> str:
    """Check and return the name of a site, or `*`. Raises `InvalidRequest`."""
    if not 1 <= len(site) <= _LONGEST_SITE or not site.isprintable():
        raise InvalidRequest(
            f"site: expected a name of at most {_LONGEST_SITE} characters, or '*', found {site[:110]!r}",
            hint="Name it as the inventory does",
        )
    return site


def _nothing(model: str, site: str) -> ServiceError:
    return NotFound(
        f"golden image of {model}: expected one for site {site!r}, found none",
        hint="An admin sets it on the page Images",
    )
