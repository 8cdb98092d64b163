"""What the stand-in says when it refuses: every status and sentence of it, and whether a real controller was seen so.

The shape is documented for all: ``{"code": int, "description": str}``. Of most sentences only the situation is known;
those are our own words and marked so. Base no decision on them: the status and the lab's state decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One refusal.

    Attributes:
        status: The code of the answer.
        words: The description, with fields to fill in.
        source: Where status and words are known from; empty for words of our own.
        is_status_known: Whether at least the status is.
    """

    status: HTTPStatus
    words: str
    source: str = ""
    is_status_known: bool = True


class Refused(Exception):
    """A call was refused, with a status and a description."""

    def __init__(self, text: Text, **fields: object) -> None:
        self.status = text.status
        self.description = text.words.format(**fields)
        super().__init__(self.description)


_API = "description of the interface, 2.9"
_CLIENT = "virl2-client 2.10.1"

TEXTS = {
    "lab_not_found": Text(status=HTTPStatus.NOT_FOUND, words="Lab not found: {lab_id}", source=_CLIENT),
    "node_not_found": Text(status=HTTPStatus.NOT_FOUND, words="Node not found: {node_id}"),
    "link_not_found": Text(status=HTTPStatus.NOT_FOUND, words="Link not found: {link_id}"),
    "interface_not_found": Text(status=HTTPStatus.NOT_FOUND, words="Interface not found: {interface_id}"),
    "annotation_not_found": Text(status=HTTPStatus.NOT_FOUND, words="Annotation not found: {annotation_id}"),
    "definition_not_found": Text(status=HTTPStatus.NOT_FOUND, words="Definition not found: {definition_id}"),
    "not_found": Text(status=HTTPStatus.NOT_FOUND, words="Not found: {what}"),
    "no_route": Text(status=HTTPStatus.NOT_FOUND, words="The stand-in has no {method} {path} in {version}"),
    "wrong_login": Text(status=HTTPStatus.FORBIDDEN, words="Authentication failed!"),
    "no_token": Text(status=HTTPStatus.UNAUTHORIZED, words="No authorization token provided."),
    "bad_token": Text(status=HTTPStatus.UNAUTHORIZED, words="Invalid or expired token."),
    "not_permitted": Text(status=HTTPStatus.FORBIDDEN, words="User {user} may not do that."),
    "bad_request": Text(status=HTTPStatus.BAD_REQUEST, words="Bad Request: {why}"),
    "bad_topology": Text(status=HTTPStatus.BAD_REQUEST, words="Bad Request: topology: {why}"),
    "missing_node_definition": Text(
        status=HTTPStatus.BAD_REQUEST, words="Node definition not found: {definition} (node {label})"
    ),
    "missing_image_definition": Text(
        status=HTTPStatus.BAD_REQUEST, words="Image definition not found: {definition} (node {label})"
    ),
    "bad_condition": Text(status=HTTPStatus.BAD_REQUEST, words="Bad Request: link condition: {why}"),
    "no_condition": Text(status=HTTPStatus.BAD_REQUEST, words="No link condition exists", source=_API),
    "cannot_start": Text(status=HTTPStatus.BAD_REQUEST, words="Cannot start lab.{why}", source=_API),
    "wipe_while_running": Text(
        status=HTTPStatus.FORBIDDEN,
        words="The lab must be stopped before it can be wiped",
        source=_API,
        is_status_known=False,
    ),
    "delete_while_running": Text(
        status=HTTPStatus.FORBIDDEN, words="The lab must be stopped and wiped first: {lab_id}", is_status_known=False
    ),
    "change_while_running": Text(
        status=HTTPStatus.FORBIDDEN, words="{what} can only be changed while it is wiped", is_status_known=False
    ),
    "refused_by_switch": Text(
        status=HTTPStatus.FORBIDDEN, words="A switch of the stand-in refuses to {verb} labs", is_status_known=False
    ),
    "no_capture": Text(status=HTTPStatus.NOT_FOUND, words="No capture on link {link_id}", is_status_known=False),
    "capture_not_running": Text(
        status=HTTPStatus.BAD_REQUEST, words="Link {link_id} is not started", is_status_known=False
    ),
    "no_file_name": Text(status=HTTPStatus.BAD_REQUEST, words="X-Original-File-Name header is missing"),
    "bad_file_name": Text(status=HTTPStatus.BAD_REQUEST, words="Unsupported file name: {name}"),
    "bad_definition": Text(status=HTTPStatus.BAD_REQUEST, words="Bad Request: definition: {why}"),
    "in_use": Text(status=HTTPStatus.FORBIDDEN, words="{what} is in use", is_status_known=False),
}
"""Every refusal, by a name of ours."""


def text_table() -> str:
    """Return the table of refusals as docs/lab.md has it."""
    rows = [
        f"| {each.status.value}{'' if each.is_status_known else ' (unknown)'} | {each.words} |"
        f" {each.source or 'words unknown, ours'} |"
        for each in TEXTS.values()
    ]
    return "\n".join(["| status | description | known from |", "|---|---|---|", *rows, ""])


def refused(name: str, /, **fields: object) -> Refused:
    """Return the refusal of that name, with its fields filled in."""
    return Refused(TEXTS[name], **fields)
