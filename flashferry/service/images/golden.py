"""Which image a model is to have, everywhere or at a site: its golden image. Only one that is for its platform."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Mapping

from flashferry.service.errors import Conflict, InvalidRequest, NotFound, ServiceError
from flashferry.images.fit import Fits, Platform, image_fit
from flashferry.service.auditing import deciding, note
from flashferry.service.images.upload import found
from flashferry.service.images.verification import usable, why_not_what_it_says
from flashferry.service.principal import EVERYWHERE, Actor
from flashferry.service.service import Service
from flashferry.store.service import images as store
from flashferry.store.service.database import moment
from flashferry.store.service.images import Golden, StoredImage

_MODEL = re.compile(r"[A-Za-z0-9][\w./+-]{0,63}", re.ASCII)
_LONGEST_SITE = 100


def choose(service: Service, actor: Actor, model: str, site: str, image: str) -> Golden:
    """Say which image a model is to have.

    Args:
        service: The service.
        actor: Who says so, an admin.
        model: The model as devices print it; capitals do not matter.
        site: The site, or `*` for all that have none of their own.
        image: Name of the image.

    Raises:
        ServiceError: 404 where the image is not here; 409 where it may not be used, or is of another platform than the
            model, or its name and the name inside the file are of two.
    """
    model, site = checked_model(model), checked_site(site)
    new = Golden(model=model, site=site, image=image, by=actor.name, at=moment(service.now()))
    with deciding(service, actor, "golden.set", object_of(model, site)) as database:
        why = usable(database, image).why_not
        if why := why or why_not_for(found(database, image), model):
            raise Conflict(
                f"golden image of {model}: {why}",
                hint="Choose an image for that model that was published, or that an admin vouched for",
            )
        before = store.golden_of(database, model, site)
        store.set_golden(database, new)
        was = None if before is None else {"image": before.image}
        note(service, database, actor, "golden.set", object_of(model, site), before=was, after={"image": image})
    return new


def unchoose(service: Service, actor: Actor, model: str, site: str) -> None:
    """Say nothing any more of which image a model is to have.

    Raises:
        ServiceError: Nothing is said of it.
    """
    model, site = checked_model(model), checked_site(site)
    with service.database.writing() as database:
        before = store.golden_of(database, model, site)
        if before is None:
            raise _nothing(model, site)
        store.remove_golden(database, model, site)
        note(service, database, actor, "golden.removed", object_of(model, site), before={"image": before.image})


def golden_for(service: Service, model: str, site: str) -> Golden:
    """Return which image a model is to have at a site: the site's own, else that of all sites.

    Raises:
        ServiceError: None is said.
    """
    model, site = checked_model(model), checked_site(site)
    with service.database.reading() as database:
        golden = store.golden_of(database, model, site) or store.golden_of(database, model, EVERYWHERE)
    if golden is None:
        raise _nothing(model, site)
    return golden


def golden_rules(database: sqlite3.Connection, sites: Collection[str]) -> str:
    """Return the golden images of all models as a file of image rules, which `flashferry plan --image-rules` takes.

    Such rules go by the model and know no site, so a model has the same golden image at all sites that are planned.

    Args:
        database: The connection of the caller's transaction.
        sites: The sites that are planned; none: all.

    Raises:
        ServiceError: 409 where no model has a golden image there, one has several, or none at some of the sites, or an image
            may not be used.
    """
    of_model: dict[str, dict[str, str]] = {}
    for one in store.golden_images(database):
        of_model.setdefault(one.model, {})[one.site] = one.image
    chosen = {model: _one_of(model, images, sites) for model, images in of_model.items()}
    rules = [{"model": model, "image": image} for model, image in chosen.items() if image is not None]
    if not rules:
        raise _no_rules("expected one of some model at the sites that are planned, found none")
    for image in dict.fromkeys(rule["image"] for rule in rules):
        if why := usable(database, image).why_not:
            raise _no_rules(why)
    return json.dumps({"rules": rules}, indent=1) + "\n"


def _one_of(model: str, images: Mapping[str, str], sites: Collection[str]) -> str | None:
    """Return the one image that a model is to have at all of some sites, None for none at any of them."""
    for_all = images.get(EVERYWHERE)
    # Of all sites there are, those that have none of their own are one more.
    at = {site: images.get(site, for_all) for site in sites or {*images, EVERYWHERE}}
    if len(set(at.values())) > 1:
        told = ", ".join(f"{image or 'none'} at {site}" for site, image in sorted(at.items()))
        told = told.replace(f"at {EVERYWHERE}", "at all others")
        raise _no_rules(f"expected one for {model} at all sites that are planned, found {told}")
    return next(iter(at.values()))


def _no_rules(why: str) -> ServiceError:
    return Conflict(
        f"golden images: {why}",
        hint="Have a plan made for each site by itself, or see to the golden images: /images, or GET /api/v1/golden",
    )


def why_not_for(image: StoredImage, model: str) -> str:
    """Return why an image is not for a model; empty where it is, or nobody can tell."""
    if why := why_not_what_it_says(image.name, image.inside):
        return why
    fit = image_fit(image.name, image.inside, Platform(models=(model,)))
    return fit.reason if fit.fits is Fits.NO else ""


def object_of(model: str, site: str) -> str:
    """Return what the audit calls a model's golden image."""
    return f"golden:{model}@{site}"


def checked_model(model: str) -> str:
    """Return a model in capitals.

    Raises:
        ServiceError: It is none.
    """
    if not _MODEL.fullmatch(model):
        raise InvalidRequest(
            "model: expected one as devices print it, of at most 64 letters, digits and '. _ / + -', "
            f"found {model[:70]!r}",
            hint="'flashferry check' prints the models of devices",
        )
    return model.upper()


def checked_site(site: str) -> str:
    """Return the name of a site, or `*`.

    Raises:
        ServiceError: It is empty, longer than a hundred signs, or has some that no line can hold.
    """
    if not 1 <= len(site) <= _LONGEST_SITE or not site.isprintable():
        raise InvalidRequest(
            f"site: expected the name of one, of at most {_LONGEST_SITE} signs, or '*', found {site[:110]!r}",
            hint="Name it as the inventory does",
        )
    return site


def _nothing(model: str, site: str) -> ServiceError:
    return NotFound(
        f"golden image of {model}: expected one for site {site!r}, found none",
        hint="An admin says which it is: on /images, or by the API PUT /api/v1/golden",
    )
