"""Plays a run as the command line would: `zh en --no-live`."""

from __future__ import annotations

import argparse
import json

from specdec_cli.console.live import choose_view
from specdec_cli.console.plain import print_caption, write_line
from specdec_cli.console.view import show
from specdec_cli.errors import AudioNotFoundError
from tests.console.script import CLIPS


def main() -> None:
    """Show the named clips of the script, and one that is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("clips", nargs="+")
    for option in ("--quiet", "--no-live", "--json", "--debug", "--fail"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_args()
    view = choose_view(quiet=options.quiet, no_live=options.no_live, json=options.json, debug=options.debug)
    try:
        with view.loading("edge: reading weights"):
            pass
        for name in options.clips:
            clip = CLIPS[name]
            for update in clip.updates:
                show(view, update)
            if options.json:
                write_line(json.dumps({"file": clip.started.file, "caption": clip.caption}, ensure_ascii=False))
            else:
                print_caption(clip.caption, shown=view.shows_caption)
        if options.fail:
            view.failed("nowhere.wav", AudioNotFoundError("no such file: nowhere.wav", hint="Check the path."))
        view.finished_all(len(options.clips), int(options.fail))
    finally:
        view.close()
