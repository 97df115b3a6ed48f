"""What a person sees: the live display of a run, its plain forms, tables and errors.

The only importer of rich. Displays write to stderr; captions, JSON and tables go to stdout.
"""

from specdec_cli.console.batch import BatchView, choose_batch_view
from specdec_cli.console.choose import choose_view
from specdec_cli.console.errors import print_error
from specdec_cli.console.lines import LinesView
from specdec_cli.console.live import LiveView
from specdec_cli.console.output import print_caption, print_json, write_line
from specdec_cli.console.plain import PlainView, QuietView
from specdec_cli.console.screenshot import record_svg
from specdec_cli.console.tables import Status, print_config, print_doctor
from specdec_cli.console.view import View, show

__all__ = [
    "BatchView",
    "LinesView",
    "LiveView",
    "PlainView",
    "QuietView",
    "Status",
    "View",
    "choose_batch_view",
    "choose_view",
    "print_caption",
    "print_config",
    "print_doctor",
    "print_error",
    "print_json",
    "record_svg",
    "show",
    "write_line",
]
