"""`specdec serve`: the configured cloud model behind HTTP, for edges elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdec_cli.cli import options, startup
from specdec_cli.cli.configured import resolve
from specdec_cli.errors import ConfigError

_NETWORK, _LIMITS = "Network", "Limits"
_TOKEN_LENGTH = 16


def serve(
    config: options.Config = None,
    settings: options.Settings = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.", rich_help_panel=_NETWORK)] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0: any that is free.", rich_help_panel=_NETWORK)
    ] = 8765,
    token_env: Annotated[
        str | None,
        typer.Option(
            "--token-env",
            metavar="NAME",
            help="Variable with the clients' token, 16 characters or more; needed unless the host is loopback.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="PEM", help="Certificate, for HTTPS.", rich_help_panel=_NETWORK),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="PEM", help="Its private key.", rich_help_panel=_NETWORK)
    ] = None,
    max_sessions: Annotated[
        int, typer.Option("--max-sessions", min=1, help="Clips held at a time.", rich_help_panel=_LIMITS)
    ] = 64,
    memory_mb: Annotated[
        int, typer.Option("--memory-mb", min=1, help="Memory of their caches, MiB.", rich_help_panel=_LIMITS)
    ] = 4096,
    max_clip_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-clip-seconds",
            min=0.1,
            help="Longest clip. [default: what the model takes]",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    idle_s: Annotated[
        float,
        typer.Option("--idle-s", min=0.1, help="Seconds until an unused clip is forgotten.", rich_help_panel=_LIMITS),
    ] = 120.0,
    max_rate: Annotated[
        float, typer.Option("--max-rate", min=1, help="Requests a second of one address.", rich_help_panel=_LIMITS)
    ] = 1000.0,
    debug: options.Debug = False,
) -> None:
    """Serve the configured cloud model to edges elsewhere (`cloud.url` in their configuration).

    Logs are JSON lines on stderr, without audio or text. One process serves one model; SIGTERM and SIGINT let it
    finish what it is answering.
    """
    resolved = resolve(config, {}, settings or [])
    cloud = resolved.config.cloud
    if cloud is None or cloud.url is not None:
        raise ConfigError(
            "There is no cloud model to serve: the configuration has none of its own.", hint="Name one in cloud.model."
        )
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together.", hint="Give both PEM files, or neither.")
    with startup.still_collector():
        try:
            from specdec_cli.cloud.http import read_token
            from specdec_cli.serve.limits import ServeLimits
            from specdec_cli.serve.run import Place, serve_model
        except ImportError as error:
            raise ConfigError(
                f"specdec serve needs a package that is not installed: {error.name}",
                hint="pip install 'specdec-cli[serve]'",
            ) from error
        token = read_token(token_env, "--token-env", least=_TOKEN_LENGTH)
        place = Place(host, port, _text(tls_cert), _text(tls_key))
        place.require(token)
        limits = ServeLimits(
            sessions=max_sessions,
            memory_bytes=memory_mb << 20,
            clip_s=max_clip_seconds,
            idle_s=idle_s,
            requests_per_s=max_rate,
        )
    serve_model(resolved.config, place, token, limits, debug=debug)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
