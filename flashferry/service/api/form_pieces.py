"""A multipart form with one large file, parsed as it arrives: fields are kept, the file is passed on piece by piece.

The form's token stands before the file, so it is checked before the file is read.
"""

from __future__ import annotations

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from flashferry.service.errors import BadForm, ServiceError

MOST_FIELDS, LONGEST_FIELD = 20, 4096


class FormPieces:
    """A form with one file, fed piece by piece. Raises `BadForm` for another content type.

    Attributes:
        fields: Fields so far; those after the file may be missing.
        file_name: Name of the file once it started, else None.
        is_ended: Whether the form is complete.
    """

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise _no_form()
        self.fields: dict[str, str] = {}
        self.file_name: str | None = None
        self.is_ended = False
        self._header, self._value, self._disposition = b"", b"", b""
        self._name, self._text, self._is_file = "", bytearray(), False
        self._file = bytearray()
        self._parser = MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": self._part_begins,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_ends,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_part_end": self._part_ends,
                "on_end": self._ends,
            },
        )

    def feed(self, piece: bytes) -> bytearray:
        """Parse the next bytes; return those of the file.

        Raises:
            BadForm: Not a form, too many or too long fields, or a second file.
        """
        try:
            self._parser.write(piece)
        except (FormParserError, UnicodeDecodeError):
            raise _no_form() from None
        found, self._file = self._file, bytearray()
        return found

    def _part_begins(self) -> None:
        self._disposition, self._text, self._is_file = b"", bytearray(), False

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header, self._value = b"", b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode()
        self._is_file = b"filename" in options
        if self._is_file:
            if self.file_name is not None:
                raise _no_form()
            self.file_name = options[b"filename"].decode()

    def _data(self, data: bytes, start: int, end: int) -> None:
        (self._file if self._is_file else self._text).extend(data[start:end])
        if len(self._text) > LONGEST_FIELD or len(self.fields) > MOST_FIELDS:
            raise _no_form()

    def _part_ends(self) -> None:
        if not self._is_file:
            self.fields[self._name] = self._text.decode()

    def _ends(self) -> None:
        self.is_ended = True


def _no_form() -> ServiceError:
    return BadForm(
        "expected a form with one file, its fields before it, found what cannot be read as one",
        hint="Load the page again, and send it from there",
    )
