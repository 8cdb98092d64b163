"""What the stand-in says when it refuses: every status and sentence of it, and whether a real controller was seen so.

The shape is documented for all: ``{"code": int, "description": str}``. Of most sentences only the situation is known;
those are our own words and marked so. Base no decision on them: the status and the lab's state decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus


@dataclass(frozen=True, slots=True)
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
    "lab_not_found": Text(HTTPStatus.NOT_FOUND, "Lab not found: {lab_id}", _CLIENT),
    "node_not_found": Text(HTTPStatus.NOT_FOUND, "Node not found: {node_id}"),
    "link_not_found": Text(HTTPStatus.NOT_FOUND, "Link not found: {link_id}"),
    "interface_not_found": Text(HTTPStatus.NOT_FOUND, "Interface not found: {interface_id}"),
    "annotation_not_found": Text(HTTPStatus.NOT_FOUND, "Annotation not found: {annotation_id}"),
    "definition_not_found": Text(HTTPStatus.NOT_FOUND, "Definition not found: {definition_id}"),
    "not_found": Text(HTTPStatus.NOT_FOUND, "Not found: {what}"),
    "no_route": Text(HTTPStatus.NOT_FOUND, "The stand-in has no {method} {path} in {version}"),
    "wrong_login": Text(HTTPStatus.FORBIDDEN, "Authentication failed!"),
    "no_token": Text(HTTPStatus.UNAUTHORIZED, "No authorization token provided."),
    "bad_token": Text(HTTPStatus.UNAUTHORIZED, "Invalid or expired token."),
    "not_permitted": Text(HTTPStatus.FORBIDDEN, "User {user} may not do that."),
    "bad_request": Text(HTTPStatus.BAD_REQUEST, "Bad Request: {why}"),
    "bad_topology": Text(HTTPStatus.BAD_REQUEST, "Bad Request: topology: {why}"),
    "missing_node_definition": Text(HTTPStatus.BAD_REQUEST, "Node definition not found: {definition} (node {label})"),
    "missing_image_definition": Text(HTTPStatus.BAD_REQUEST, "Image definition not found: {definition} (node {label})"),
    "bad_condition": Text(HTTPStatus.BAD_REQUEST, "Bad Request: link condition: {why}"),
    "no_condition": Text(HTTPStatus.BAD_REQUEST, "No link condition exists", _API),
    "cannot_start": Text(HTTPStatus.BAD_REQUEST, "Cannot start lab.{why}", _API),
    "wipe_while_running": Text(
        HTTPStatus.FORBIDDEN, "The lab must be stopped before it can be wiped", _API, is_status_known=False
    ),
    "delete_while_running": Text(
        HTTPStatus.FORBIDDEN, "The lab must be stopped and wiped first: {lab_id}", is_status_known=False
    ),
    "change_while_running": Text(
        HTTPStatus.FORBIDDEN, "{what} can only be changed while it is wiped", is_status_known=False
    ),
    "refused_by_switch": Text(
        HTTPStatus.FORBIDDEN, "A switch of the stand-in refuses to {verb} labs", is_status_known=False
    ),
    "no_capture": Text(HTTPStatus.NOT_FOUND, "No capture on link {link_id}", is_status_known=False),
    "capture_not_running": Text(HTTPStatus.BAD_REQUEST, "Link {link_id} is not started", is_status_known=False),
    "no_file_name": Text(HTTPStatus.BAD_REQUEST, "X-Original-File-Name header is missing"),
    "bad_file_name": Text(HTTPStatus.BAD_REQUEST, "Unsupported file name: {name}"),
    "bad_definition": Text(HTTPStatus.BAD_REQUEST, "Bad Request: definition: {why}"),
    "in_use": Text(HTTPStatus.FORBIDDEN, "{what} is in use", is_status_known=False),
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
