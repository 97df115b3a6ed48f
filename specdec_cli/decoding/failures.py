"""What is done when a model of a clip fails: the other one writes the rest, or the clip fails."""

from __future__ import annotations

from dataclasses import dataclass, field

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.errors import CloudError, EdgeError


@dataclass(eq=False)
class Failures:
    """The failures in one clip: of one model at most, since the clip fails with the other one."""

    settings: DecodingConfig
    edge: str | None = field(default=None, init=False)  # why the cloud writes the rest alone
    cloud: str | None = field(default=None, init=False)  # why the edge writes the rest alone

    def of_edge(self, error: EdgeError, *, cloud_left: bool) -> None:
        """Leaves the rest to the cloud; raises `error` if there is none left, or the settings do not allow it."""
        if not cloud_left or self.settings.edge_failed != "cloud":
            raise error
        self.edge = error.message

    def of_cloud(self, error: CloudError, *, edge_left: bool) -> None:
        """Leaves the rest to the edge; raises `error` if there is none left, or the settings do not allow it."""
        if not edge_left or not self.settings.degrades:
            raise error
        self.cloud = error.message

    @property
    def degraded(self) -> str | None:
        """Why one model wrote the rest of the clip alone; None if both lasted."""
        if self.edge is not None:
            return f"{self.edge}; from there on the cloud wrote alone"
        if self.cloud is not None and self.settings.mode == "lossless":
            return f"{self.cloud}; from there on the text is the edge's own, and not lossless"
        return self.cloud
