"""Settings from environment variables: `SPECDEC_DECODING__K=3` is `decoding.k`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specdec_cli.config.layers import Given, Layer, Origin
from specdec_cli.config.problems import Problem, nearest, show, show_name
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import REMOVED, SETTINGS
from specdec_cli.config.yaml_file import read_value

PREFIX: Final = "SPECDEC_"
CONFIG_VARIABLE: Final = "SPECDEC_CONFIG"
"""Names the config file when no flag does."""

NO_CLOUD_VARIABLE: Final = "SPECDEC_CLOUD"
"""Set to null: no cloud, whatever the file says."""

NULLS: Final = ("", "~", "null", "Null", "NULL")


def variable_of(name: str) -> str:
    """The environment variable of a dotted name."""
    return PREFIX + name.upper().replace(".", "__")


VARIABLES: Final[dict[str, str]] = {variable_of(name): name for name in SETTINGS}
"""Environment variable -> dotted name."""


def parse_value(name: str, text: str) -> object:
    """The value that `text` spells for the setting `name`, not checked yet.

    Text is taken as it stands, so that a prompt with a colon needs no quotes; everything else is read as YAML.
    `null`, `~` and nothing at all mean null.
    """
    if text.strip() in NULLS:
        return None
    return text if SETTINGS[name].takes_text else read_value(text)


def read_environment(environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """The settings in `environ` by dotted name, and the variables that look like settings but are none."""
    layer: Layer = {}
    problems: list[Problem] = []
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        text = environ[variable]
        if variable in VARIABLES:
            name = VARIABLES[variable]
            layer[name] = Given(parse_value(name, text), Origin.environment(variable))
        elif variable == NO_CLOUD_VARIABLE:
            if text.strip() in NULLS:
                layer["cloud"] = Given(None, Origin.environment(variable))
            else:
                message = f"{variable} may only be null (no cloud), not {show(text)}."
                problems.append(Problem(message, f"To name a cloud model, set {variable_of('cloud.model')}."))
        elif _looks_like_a_setting(variable):
            problems.append(_unknown_variable(variable))
    return layer, problems


def _looks_like_a_setting(variable: str) -> bool:
    rest = variable.removeprefix(PREFIX)
    return "__" in rest or any(rest.startswith(f"{section.upper()}_") for section in (*SECTIONS, *REMOVED))


def _unknown_variable(variable: str) -> Problem:
    section = variable.removeprefix(PREFIX).partition("_")[0].lower()
    if section in REMOVED:
        return Problem(f"The variable {show_name(variable)} names no setting any more.", REMOVED[section])
    close = nearest(variable.removeprefix(PREFIX), [known.removeprefix(PREFIX) for known in VARIABLES])
    meant = f"Did you mean {PREFIX}{close}? " if close else ""
    if section in SECTIONS:
        listed = ", ".join(v for v, name in VARIABLES.items() if name.startswith(f"{section}."))
        return Problem(
            f"The variable {show_name(variable)} names no setting.", f"{meant}Variables of {section}: {listed}."
        )
    sections = ", ".join(section.upper() for section in (*SECTIONS, *REMOVED))
    return Problem(
        f"The variable {show_name(variable)} names no setting.", f"{meant}SPECDEC_<SECTION>__<FIELD>, of {sections}."
    )
