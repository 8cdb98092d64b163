"""Settings of a run that a person chooses at the service: fields of a body, fields of a form, and what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, Field, create_model

from flashferry.model.policy import settings
from flashferry.model.setting import AtService, Setting

Body = TypeVar("Body", bound=BaseModel)

WITH_THE_PLAN = tuple(one for one in settings().values() if one.at_service is not AtService.NEVER)
"""Chosen where the service makes a plan: they are approved with it."""

AT_THE_START = tuple(one for one in settings().values() if one.at_service is AtService.START)
"""Those that may be switched on beyond the plan when its run is started."""


def with_settings(offered: tuple[Setting, ...]) -> Callable[[type[Body]], type[Body]]:
    """Give a body a field for each of these settings; `chosen_in` returns those that were sent."""
    fields: dict[str, Any] = {
        one.name: (bool | None if one.off else bool, Field(one.default, description=one.explained)) for one in offered
    }

    def add(body: type[Body]) -> type[Body]:
        return create_model(body.__name__, __base__=body, __doc__=body.__doc__, __module__=body.__module__, **fields)

    return add


def chosen_in(body: BaseModel, offered: tuple[Setting, ...]) -> dict[str, object]:
    """Return the settings that a body chooses, by name."""
    return _chosen({one.name: getattr(body, one.name) for one in offered}, offered)


def chosen_by_form(offered: tuple[Setting, ...]) -> Callable[[Request], Any]:
    """Return a dependency: the settings that a form chooses, by name."""

    async def chosen(request: Request) -> dict[str, object]:
        form = await request.form()
        return _chosen({one.name: _SWITCHED.get(str(form.get(one.name))) for one in offered}, offered)

    return chosen


_SWITCHED = {"true": True, "false": False}


def _chosen(given: Mapping[str, object], offered: tuple[Setting, ...]) -> dict[str, object]:
    """Return what was switched; off only where the setting knows a word for it."""
    return {one.name: given[one.name] for one in offered if given[one.name] or (given[one.name] is False and one.off)}
