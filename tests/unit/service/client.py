"""Starlette's client of an application. It asks for another release of httpx, and warns of ours when it is imported."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

__all__ = ["TestClient"]
