"""What the product gives without any device: help, codes and names, documents about this host, and served images."""

from __future__ import annotations

import ftplib
import inspect
import json
import re
import socket
import urllib.request
from enum import Enum
from pathlib import Path
from typing import Any

from tests.contract import product
from tests.contract.normal import event_lines, metrics_page, shape, words
from tests.patience import PATIENCE_S

IMAGE = bytes(range(256)) * 400


def help_pages(folder: Path) -> dict[str, str]:
    """Return the help of every family and verb."""
    return {f"{name}.txt": text for name, text in product.help_pages().items()}


def service_api(folder: Path) -> dict[str, str]:
    """Return what the staging service's API takes and answers."""
    return {"openapi.json": product.openapi(folder)}


def constants(folder: Path) -> dict[str, str]:
    """Return exit codes with their meanings by verb, the report's schema, and what scripts import.

    The first of them, `stage_fleet`, is kept to the word; of the others names and arguments are.
    """
    library = product.LIBRARY
    first = {
        name: {
            "arguments": list(inspect.signature(getattr(library, name)).parameters),
            "documentation": (inspect.getdoc(getattr(library, name)) or "").splitlines(),
        }
        for name in ("stage_fleet",)
    }
    everything = {name: _parts(getattr(library, name)) for name in library.__all__}
    return {
        "exit-codes.json": _json(product.exit_codes()),
        "report.schema.json": _json(product.schema_of_report()),
        "library.json": _json({"module": library.__name__, "names": first}),
        "api.json": _json({"module": library.__name__, "names": everything}),
    }


def _parts(public: Any) -> list[str]:
    """Return the arguments of a function or a value, or the words of an enumeration."""
    if isinstance(public, type) and issubclass(public, Enum):
        return [str(one.value) for one in public]
    return list(inspect.signature(public).parameters)


def documents(folder: Path) -> dict[str, str]:
    """Return the documents of verbs that look at this host, of an empty journal, and of commands that are refused."""
    images = folder / "images"
    images.mkdir()
    (images / "small.bin").write_bytes(IMAGE)
    (images / "bad name.bin").write_bytes(b"x")
    none = folder / "nothing.bin"
    asked: dict[str, tuple[object, ...]] = {
        "images-list": ("images", "list", images),
        "images-hash": ("images", "hash", images),
        "doctor": ("doctor",),
        "status-empty": ("status",),
        "run-list-empty": ("run", "list"),
        "history-empty": ("history",),
        "recover-nothing": ("recover", "-i", "sample"),
        "error-no-inventory": ("check",),
        "error-no-image": ("stage", "-i", "sample", "--image", none),
        "error-no-run": ("report", "latest"),
        "error-no-plan": ("stage", "-i", "sample", "--plan", none),
        "error-resume": ("stage", "-i", "sample", "--resume", "none"),
        "error-option": ("stage", "--no-such-option"),
        "error-verb": ("fly",),
        "error-selection": ("check", "-i", "sample", "--host", "nobody"),
        "error-lab": ("lab", "exec", "true"),
        "error-control": ("run", "pause", "none"),
        "error-serve": ("serve", "--image-dir", none),
    }
    return {
        f"{name}.txt": _document(folder, name, done)
        for name, done in product.run_each(folder, {name: (*given, "--json") for name, given in asked.items()}).items()
    }


def _document(folder: Path, name: str, done: product.Done) -> str:
    document: Any = done.document
    told = done.err.splitlines()
    if name == "doctor":
        # What a host grants differs; what was looked at, and in which form it is told, does not.
        document = {**document, "findings": [shape(one) for one in document["findings"]]}
        told = []
    return words("\n".join([f"exit code {done.code}", _json(document).rstrip(), *told, ""]), {str(folder): "FOLDER"})


_VARYING = frozenset({"control_syn", "data_syn", "pace_bytes_per_s", "samples", "evidence"})
"""What depends on the rights that this process has, or on how short a copy was."""


def serving(folder: Path) -> dict[str, str]:
    """Return the JSON lines and the metrics of `serve` around one copy, and the copy line."""
    images = folder / "images"
    images.mkdir()
    (images / "small.bin").write_bytes(IMAGE)
    port = _free_port()
    given = ("--image-dir", images, "--listen", "127.0.0.1", "--port", "0", "--metrics", port, "--cap-mbps", "80")
    lines: list[str] = []
    with product.started(folder, "serve", "--json", *given) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            offers = [json.loads(one) for one in lines if '"offer"' in one]
            if len(offers) == 1 and '"offer"' in line:
                _fetch(offers[0]["copy"][0])
            if len(offers) == 2:
                break
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            page = answer.read().decode()
    first = json.loads(lines[0])["copy"][0] if "copy" in lines[0] else ""
    told = event_lines((line for line in lines if json.loads(line)["event"] != "progress"), _VARYING)
    return {
        "lines.txt": told,
        "copy-line.txt": re.sub(r"//\w+:\w+@([\d.]+):\d+", r"//USER:PASSWORD@\1:PORT", first) + "\n",
        "metrics.txt": metrics_page(page),
    }


def _fetch(line: str) -> None:
    found = re.match(r"copy ftp://(\w+):(\w+)@([\d.]+):(\d+)/(\S+) ", line)
    assert found is not None, line
    user, password, host, port, name = found.groups()
    with ftplib.FTP() as client:
        client.connect(host, int(port), timeout=PATIENCE_S)
        client.login(user, password)
        client.retrbinary(f"RETR {name}", bytearray().extend)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _json(value: object) -> str:
    return json.dumps(value, indent=1) + "\n"
