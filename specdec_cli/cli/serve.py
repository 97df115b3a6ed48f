"""`specdec serve`: the configured cloud model behind HTTP, for edges elsewhere."""

from __future__ import annotations

import typer

from specdec_cli.cli import options
from specdec_cli.errors import ConfigError, install

_TOKEN_LENGTH = 16


def serve(
    context: typer.Context,
    cloud: options.CloudModel = None,
    source: options.ConfigFile = None,
    settings: options.Settings = None,
    host: options.Host = "127.0.0.1",
    port: options.Port = 8765,
    token_env: options.TokenVariable = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    max_sessions: options.MaxSessions = 64,
    memory_mb: options.MemoryMb = 4096,
    max_clip_seconds: options.MaxClipSeconds = None,
    idle_s: options.IdleSeconds = 120.0,
    debug: options.Debug = False,
) -> None:
    """Serve the configured cloud model to edges elsewhere.

    Their configuration names this server in `cloud.url`. Logs are JSON lines on stderr, without audio or text. One
    process serves one model; SIGTERM and SIGINT let it finish what it is answering.
    """
    resolved = options.resolve(context)
    served = resolved.config.cloud
    if served is None or served.url is not None:
        hint = "Name one in cloud.model."
        raise ConfigError("There is no cloud model to serve: the configuration has none of its own.", hint=hint)
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together.", hint="Give both PEM files, or neither.")
    try:
        from specdec_cli.cloud.http import read_token
        from specdec_cli.serve.limits import ServeLimits
        from specdec_cli.serve.server import Place, serve_model
    except ImportError as error:
        message = f"specdec serve needs a package that is not installed: {error.name}"
        raise ConfigError(message, hint=f"Install it: {install('serve')}") from error
    token = read_token(token_env, "--token-env", least=_TOKEN_LENGTH)
    place = Place(host, port, str(tls_cert) if tls_cert else None, str(tls_key) if tls_key else None)
    limits = ServeLimits(sessions=max_sessions, memory_bytes=memory_mb << 20, clip_s=max_clip_seconds, idle_s=idle_s)
    serve_model(resolved.config, place, token, limits, debug=debug)
