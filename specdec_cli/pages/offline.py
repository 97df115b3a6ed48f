"""Pages that fetch nothing: templates, assets, and the policy by which browsers fetch nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from specdec_cli.format import count, percent
from specdec_cli.pages.words import script
from specdec_cli.times import seconds


def environment() -> Environment:
    """The environment of the templates in `assets/`; inserted values are escaped."""
    loader = PackageLoader("specdec_cli.pages", "assets")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    made.globals |= {"count": count, "percent": percent, "seconds": seconds}
    return made


def asset(*names: str) -> str:
    """Files of `assets/`, one after the other."""
    folder = files("specdec_cli.pages") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def module(*names: str) -> str:
    """The module of a page: the words that its scripts show, and files of `assets/`, one after the other."""
    return f"{script()}\n{asset(*names)}"


def policy(script: str, style: str) -> str:
    """A Content-Security-Policy that allows the page's own script and style, by their hashes, and nothing else."""
    digests = (base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in (script, style))
    own = "script-src 'sha256-{}'; style-src 'sha256-{}'".format(*digests)
    return f"default-src 'none'; {own}; img-src data:; media-src blob:; base-uri 'none'; form-action 'none'"


def offline_page(template: str, styles: Sequence[str], scripts: Sequence[str], **values: object) -> str:
    """A page in one file, out of a template that extends `offline.html.j2`.

    Args:
        styles: files of `assets/`, which become its style.
        scripts: files of `assets/`, joined in this order into one module.
        values: what the template inserts: `data` for the script, `audio` (number and base64 of each MP3), and its own.
    """
    style, joined = asset(*styles), module(*scripts)
    inserted = {"policy": policy(joined, style), "style": Markup(style), "script": Markup(joined), **values}
    return environment().get_template(template).render(inserted)
