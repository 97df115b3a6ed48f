"""Settings: where they come from, what they mean, and which values are refused.

    resolved = load_config("mini", flags={"decoding.k": 3}, environ=os.environ)
    resolved.config.decoding.k            # 3
    resolved.origin["decoding.k"]         # "flag decoding.k"

Defaults < config file < environment (`SPECDEC_DECODING__K=3`) < flags. Nothing here imports torch.
"""

from specdec_cli.config.layers import parse_setting
from specdec_cli.config.locate import configs_folder, shipped_configs
from specdec_cli.config.model_schema import CloudConfig, EdgeConfig, ModelConfig, RoleConfig, Server
from specdec_cli.config.resolve import ResolvedConfig, load_config
from specdec_cli.config.schema import Config
from specdec_cli.config.settings import SETTINGS

__all__ = [
    "SETTINGS",
    "CloudConfig",
    "Config",
    "EdgeConfig",
    "ModelConfig",
    "ResolvedConfig",
    "RoleConfig",
    "Server",
    "configs_folder",
    "load_config",
    "parse_setting",
    "shipped_configs",
]
