"""What a person sees: the live display of a run, its plain forms, progress, tables and errors.

The only importer of rich. Displays write to stderr; captions, JSON and tables go to stdout.
"""

from specdec_cli.console.live import LiveView, choose_view
from specdec_cli.console.output import print_caption, print_error, write_line
from specdec_cli.console.progress import Steps, choose_steps
from specdec_cli.console.screenshot import record_svg
from specdec_cli.console.tables import Status, print_config, print_doctor
from specdec_cli.console.view import PlainView, View, show

__all__ = [
    "LiveView",
    "PlainView",
    "Status",
    "Steps",
    "View",
    "choose_steps",
    "choose_view",
    "print_caption",
    "print_config",
    "print_doctor",
    "print_error",
    "record_svg",
    "show",
    "write_line",
]
