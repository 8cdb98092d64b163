"""Run settings that a caller can choose at the service; body and form fields are derived from the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, Field, create_model

from flashferry.model.policy import PlanSettings, at_the_start, carried, with_the_plan
from flashferry.model.setting import Setting
from flashferry.reports.words import as_fields

Body = TypeVar("Body", bound=BaseModel)
WITH_THE_PLAN, AT_THE_START = with_the_plan(), at_the_start()


def with_settings(offered: tuple[Setting, ...]) -> Callable[[type[Body]], type[Body]]:
    """Return a class decorator that adds a field for each setting to a request body."""
    fields: dict[str, Any] = {
        one.name: (bool | None if one.default is None else bool, Field(one.default, description=one.explained))
        for one in offered
    }

    def add(body: type[Body]) -> type[Body]:
        return create_model(body.__name__, __base__=body, __doc__=body.__doc__, __module__=body.__module__, **fields)

    return add


def chosen_in(body: BaseModel, offered: tuple[Setting, ...]) -> dict[str, object]:
    """Return the chosen settings of a body, by name."""
    return _chosen({one.name: getattr(body, one.name) for one in offered}, offered)


def chosen_by_form(offered: tuple[Setting, ...]) -> Callable[[Request], Any]:
    """Return a FastAPI dependency that reads the chosen settings of a form, by name."""

    async def chosen(request: Request) -> dict[str, object]:
        form = await request.form()
        return _chosen({one.name: _SWITCHED.get(str(form.get(one.name))) for one in offered}, offered)

    return chosen


def form_rows(offered: tuple[Setting, ...]) -> list[dict[str, object]]:
    """Return settings as rows of a form, each with its choices: on, off or default."""
    return [
        {
            "name": one.name,
            "label": one.label,
            "help": as_fields(one.explained),
            "none": one.none if one.default is None else None,
        }
        for one in offered
    ]


def carried_rows(plan: PlanSettings) -> list[dict[str, object]]:
    """Return the settings stored in a plan as rows of its page."""
    return [
        {"label": one.label, "value": one.in_words(value), "is_usual": one.is_usual(value)}
        for one, value in carried(plan)
    ]


_SWITCHED = {"true": True, "false": False}


def _chosen(given: Mapping[str, object], offered: tuple[Setting, ...]) -> dict[str, object]:
    """Return the settings that were switched on, or off where neither is the default."""
    return {
        one.name: given[one.name]
        for one in offered
        if given[one.name] or (given[one.name] is False and one.default is None)
    }
