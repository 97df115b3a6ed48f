"""How a command gets the options of the configuration, and the configuration out of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec_cli.cli import options
from specdec_cli.config import ResolvedConfig, load_config, parse_setting
from specdec_cli.config.gate_file import names_gate_file
from specdec_cli.config.locate import gate_path


@dataclass(frozen=True, slots=True)
class Given:
    """What a command line says of the configuration.

    Attributes:
        source: --config.
        flags: setting -> value of its flag, None if the flag was not given.
        settings: --set arguments.
    """

    source: str | None
    flags: Mapping[str, object]
    settings: Sequence[str]

    def resolve(
        self, fixed: Mapping[str, object] | None = None, *, spelled: Mapping[str, str] = options.FLAG_NAMES
    ) -> ResolvedConfig:
        """The configuration in force; see `resolve`.

        Args:
            fixed: settings that the command itself decides.
            spelled: setting -> the command's flag for it, for messages.
        """
        return resolve(self.source, {**self.flags, **(fixed or {})}, self.settings, spelled=spelled)

    def reads(self, resolved: ResolvedConfig) -> list[Path]:
        """The files that the configuration comes from: its own, and gate files that options name."""
        named = [self.flags.get("gate.name"), *(text.partition("=")[2] for text in self.settings)]
        gates = [gate_path(str(name)) for name in named if names_gate_file(name)]
        return [resolved.path, *gates, *filter(None, [resolved.config.gate.weights_path])]


def configured(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command --config, --set, --debug and the flags of settings in `options.SHARED`.

    The command itself takes `given` and `debug` in their place; they stand in the help where `given` stands in its
    signature.

    Args:
        names: which of `options.SHARED`; none for all of them.
    """
    shared = {name: options.SHARED[name] for name in options.SHARED if name in names or not names}

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(config: str | None, settings: list[str] | None, debug: bool, **own: Any) -> None:
            flags = {setting: own.pop(name) for name, (setting, _) in shared.items()}
            if debug:
                _log_everything()
            command(given=Given(config, flags, settings or []), debug=debug, **own)

        declared = _declared(command, {name: annotation for name, (_, annotation) in shared.items()})
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(n, keyword, default=d, annotation=a) for n, (a, d) in declared.items()]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {name: annotation for name, (annotation, _) in declared.items()}
        del run.__wrapped__  # typer would look through it
        return run

    return declare


def _declared(command: Callable[..., None], shared: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Parameter -> (annotation, default) of a configured command, in the order of its help."""
    declared: dict[str, tuple[Any, Any]] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if name == "given":
            declared["config"] = (options.Config, None)
            declared |= {flag: (annotation, None) for flag, annotation in shared.items()}
            declared["settings"] = (options.Settings, None)
        elif name != "debug":
            declared[name] = (parameter.annotation, parameter.default)
    return declared | {"debug": (options.Debug, False)}


def _log_everything() -> None:
    import logging

    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("specdec_cli").setLevel(logging.DEBUG)


def resolve(
    source: str | None,
    given: Mapping[str, object],
    settings: Iterable[str] = (),
    *,
    spelled: Mapping[str, str] = options.FLAG_NAMES,
) -> ResolvedConfig:
    """The configuration in force.

    Args:
        source: --config.
        given: setting -> value of each flag; None and empty lists mean that the flag was not given.
        settings: --set arguments; they win over flags.
        spelled: setting -> the command's flag for it, for messages.

    Raises:
        ConfigError: anything in any layer is wrong.
    """
    flags = {name: value for name, value in given.items() if value is not None and value != []}
    names = dict(spelled)
    for setting in settings:
        name, value = parse_setting(setting)
        flags[name] = value
        names[name] = "--set"
    return load_config(source, flags=flags, flag_names=names)
