"""`specdec serve`: the configured cloud model behind HTTP, for edges elsewhere."""

from __future__ import annotations

from pathlib import Path

from specdec_cli.cli.command import Given, command
from specdec_cli.cli.startup import still_collector
from specdec_cli.errors import ConfigError
from specdec_cli.imports import import_libraries

_TOKEN_LENGTH = 16


@command(example="--host 0.0.0.0 --token-env SPECDEC_TOKEN --tls-cert cert.pem --tls-key key.pem")
def serve(
    given: Given,
    host: str = "127.0.0.1",
    port: int = 8765,
    token_env: str | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    max_sessions: int = 64,
    memory_mb: int = 4096,
    max_clip_seconds: float | None = None,
    idle_s: float = 120.0,
    max_rate: float = 1000.0,
    debug: bool = False,
) -> None:
    """Serve the configured cloud model to edges elsewhere.

    Their configuration names this server in `cloud.url`. Logs are JSON lines on stderr, without audio or text. One
    process serves one model; SIGTERM and SIGINT let it finish what it is answering.
    """
    resolved = given.resolve()
    cloud = resolved.config.cloud
    if cloud is None or cloud.url is not None:
        raise ConfigError(
            "There is no cloud model to serve: the configuration has none of its own.", hint="Name one in cloud.model."
        )
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together.", hint="Give both PEM files, or neither.")
    with still_collector():
        try:
            from specdec_cli.cloud.http import read_token

            import_libraries()
            from specdec_cli.serve.limits import ServeLimits
            from specdec_cli.serve.run import Place, serve_model
        except ImportError as error:
            raise ConfigError(
                f"specdec serve needs a package that is not installed: {error.name}",
                hint="pip install 'specdec-cli[serve]'",
            ) from error
        token = read_token(token_env, "--token-env", least=_TOKEN_LENGTH)
        place = Place(host, port, _text(tls_cert), _text(tls_key))
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
