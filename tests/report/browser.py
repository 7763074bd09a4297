"""A page as a browser takes it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Tags, links and text; refuses tags that are not closed, and attributes that act."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.text, self._open = [], [], "", []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data
