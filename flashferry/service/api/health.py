"""Whether the service is there: for proxies, supervisors and probes."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """Say that the process answers; nothing else is looked at."""
    return {"status": "ok"}
