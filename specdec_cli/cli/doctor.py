"""`specdec doctor`: checks that everything is here that a caption needs."""

# no postponed annotations: see `specdec_cli.cli.options`

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from specdec_cli.cli import options
from specdec_cli.console.tables import ONE_LINE, doctor_page, print_page
from specdec_cli.console.view import choose_view
from specdec_cli.diagnosis import examine


@dataclass(frozen=True, kw_only=True)
class DoctorCommand(options.RunOptions):
    """It loads the models and captions a second of test sound, but downloads nothing."""

    name: ClassVar[str] = "doctor"

    quick: Annotated[bool, options.of_work("--quick", help="Do not load the models.")] = False

    def run(self) -> int:
        """See `Command.run`."""
        resolved = self.resolved()
        with choose_view() as view, view.loading("PyTorch" if self.quick else "PyTorch and the models"):
            checks = list(examine(resolved, load_models=not self.quick))
        rows = [(check.name, check.status, check.detail) for check in checks]
        print_page(partial(doctor_page, rows), piped_width=ONE_LINE)
        return 3 if any(check.status == "fail" for check in checks) else 0
