"""Pages that are looked at by tests."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "br", "input", "link", "img", "hr"}


class Page(HTMLParser):
    """What a page is made of: tags in balance, attributes, and text outside script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.parts: dict[str, list[str]] = {"script": [], "style": []}
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)
        if tag in self.parts:
            self.parts[tag].append("")

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in self.parts:
            self.parts[self.open[-1]][-1] += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All its words."""
        return "".join(self.words)
