"""What an HTML parser finds in a page."""

import base64
import hashlib
import json
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Elements with their attributes, and the raw content of scripts and styles.

    Attributes:
        elements: (tag, attributes) in order.
        sources: (tag, attributes, content) of every `script` and `style`.
        text: everything that is text outside of these.
    """

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.sources: list[tuple[str, dict[str, str | None], str]] = []
        self.text = ""
        self._inside: str | None = None
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = tag
            self.sources.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            tag, attributes, content = self.sources[-1]
            self.sources[-1] = (tag, attributes, content + data)
        else:
            self.text += data

    def data(self) -> Any:
        """The embedded data."""
        (content,) = [content for _, attributes, content in self.sources if attributes.get("id") == "data"]
        return json.loads(content)

    def meta(self, name: str) -> str:
        """Content of a `meta http-equiv`."""
        (found,) = [a["content"] for tag, a in self.elements if tag == "meta" and a.get("http-equiv") == name]
        return found or ""

    def require_offline(self, policy: str) -> None:
        """It holds all that it needs, and its policy lets those scripts and styles run and nothing else."""
        allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
        assert allowed["default-src"] == "'none'"
        assert "unsafe" not in policy
        for name, tag in (("script-src", "script"), ("style-src", "style")):
            own = [content for kind, attributes, content in self.sources if kind == tag and runs(attributes)]
            digests = [base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in own]
            assert set(allowed[name].split()) == {f"'sha256-{digest}'" for digest in digests}
            assert len(digests) == 1
        for tag, attributes in self.elements:
            assert tag not in ("iframe", "object", "embed", "base", "video", "source")
            for name in ("src", "href", "action", "data", "poster", "srcset"):
                assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
            assert not any(name == "style" or name.startswith("on") for name in attributes)


def runs(attributes: dict[str, str | None]) -> bool:
    """Whether the content of a script or style is obeyed."""
    return attributes.get("type") in (None, "module")
