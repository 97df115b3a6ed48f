"""How a function becomes a command: its options looked up in the table, its configuration resolved, its exit code.

A command is a function whose parameters are names in `options.OPTIONS`; `given` stands for --config, --set and the
options of settings, and becomes what the command line says of the configuration; a command without it has none.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from specdec_cli.cli.options import FLAG_NAMES, OFF_NAMES, OPTIONS, Option
from specdec_cli.config import SETTINGS, Config, ResolvedConfig, Setting, load_config, parse_setting
from specdec_cli.config.sources import parse_value

_NOTHING: Final[Mapping[str, str]] = {}
_STARTS_WITH_A_VALUE: Final = re.compile(r"[\w-]+(, [\w-]+)*:")


@dataclass(frozen=True, slots=True)
class Given:
    """What a command line says of the configuration.

    Attributes:
        source: --config.
        flags: setting -> value of its flag, of those that were given.
        settings: --set arguments; they win over flags.
    """

    source: str | None
    flags: Mapping[str, object]
    settings: Sequence[str]

    def resolve(
        self, fixed: Mapping[str, object] | None = None, *, spelled: Mapping[str, str] = FLAG_NAMES
    ) -> ResolvedConfig:
        """The configuration in force.

        Args:
            fixed: settings that the command itself decides.
            spelled: setting -> the command's flag for it, for messages.

        Raises:
            ConfigError: anything in any layer is wrong.
        """
        flags, names = {**self.flags, **(fixed or {})}, dict(spelled)
        names |= {name: off for name, off in OFF_NAMES.items() if flags.get(name) is False}
        for setting in self.settings:
            name, value = parse_setting(setting)
            flags[name] = value
            names[name] = "--set"
        return load_config(self.source, flags=flags, flag_names=names)


def command(
    *settings: str, example: str, defaults: Mapping[str, str] = _NOTHING, source: bool = False
) -> Callable[[Callable[..., int | None]], Any]:
    """Makes a function a command.

    Args:
        settings: options of settings that it takes, by parameter.
        example: arguments to show in its help.
        defaults: option -> its default where this command has its own.
        source: take the configuration as an argument, not with --config.
    """

    def declare(function: Callable[..., int | None]) -> Any:
        @functools.wraps(function)
        def run(**own: Any) -> None:
            if own["debug"]:
                _log_everything()
            if "debug" not in parameters:
                del own["debug"]
            flags = {str(OPTIONS[name].setting): _value(OPTIONS[name], own.pop(name)) for name in settings}
            given = {setting: value for setting, value in flags.items() if value is not None}
            if "given" in parameters:
                own["given"] = Given(own.pop("source" if source else "config"), given, own.pop("settings") or [])
            if code := function(**own):
                raise typer.Exit(code)

        parameters = inspect.signature(function, eval_str=True).parameters
        declared = list(_declared(parameters, settings, "source" if source else "config"))
        run.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in declared}
        del run.__wrapped__  # typer would look through it
        run.__dict__.update(example=example, defaults=defaults, own=parameters)
        return run

    return declare


def _declared(
    parameters: Mapping[str, inspect.Parameter], settings: Sequence[str], source: str
) -> Iterator[inspect.Parameter]:
    """The parameters as typer reads them."""
    for parameter in parameters.values():
        if parameter.name not in ("given", "debug"):
            yield _parameter(parameter.name, parameter.annotation, parameter.default)
        if parameter.name != "given":
            continue
        for setting in settings:
            default = SETTINGS[str(OPTIONS[setting].setting)].default
            kind = bool if isinstance(default, bool) else list[str] if isinstance(default, tuple) else str
            yield _parameter(setting, kind | None, None)
        yield _parameter(source, str | None, None)
        yield _parameter("settings", list[str] | None, None)
    yield _parameter("debug", bool, False)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    option = OPTIONS[name]
    keywords: dict[str, Any] = {"help": option.help, "metavar": option.metavar, "rich_help_panel": option.panel}
    if setting := option.of_setting:
        keywords["help"] = setting_help(setting)
    if values := option.values:
        keywords["autocompletion"] = lambda incomplete: values(incomplete)
    if option.least is not None or option.most is not None:
        keywords |= {"min": option.least, "max": option.most}
    declared = typer.Option(*option.flags, **keywords) if option.flags else typer.Argument(**keywords)
    annotated = Annotated[annotation, declared]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated)


def setting_help(setting: Setting) -> str:
    """What the option of a setting does, as a sentence."""
    text = setting.description
    if isinstance(setting.default, bool):
        text = text.removeprefix("true: ").partition("; false: ")[0]
    return (text if _STARTS_WITH_A_VALUE.match(text) else text[0].upper() + text[1:]) + "."


def _value(option: Option, given: Any) -> Any:
    """What an option of a setting was given, as a value that the setting may take; None if it was not given."""
    setting = option.of_setting
    if setting is None or setting.takes_text or not isinstance(given, str):
        return given or None if isinstance(given, list) else given
    return parse_value(setting.name, given)


def _log_everything() -> None:
    import logging

    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("specdec_cli").setLevel(logging.DEBUG)


class Command(TyperCommand):
    """A command whose help lists options by panel, whole, with the default of each."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        own: Mapping[str, str] = getattr(self.callback, "defaults", _NOTHING)
        mini = load_config("mini", environ={}).config
        parameter: Any
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            option = OPTIONS.get(parameter.name)
            default = option and (own.get(parameter.name) or option.default or _configured(option, mini))
            argument = parameter.param_type_name == "argument"
            panel = "Arguments" if argument else parameter.rich_help_panel or "Other"
            text = f"{record[1]}  [default: {default}]" if default else record[1]
            panels.setdefault(panel, []).append((parameter.metavar if argument else record[0], text))
        panels["Other"] = panels.pop("Other")
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


def _configured(option: Option, config: Config) -> str | None:
    """What a configuration says of the setting of an option, as one would write it; None if it is off."""
    section, _, field = (option.setting or "").partition(".")
    value = getattr(getattr(config, section), field) if field else None
    if value is None or value == ():
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
