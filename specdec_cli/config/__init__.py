"""Settings: where they come from, what they mean, and which values are refused.

    resolved = load_config("mini", flags={"decoding.k": 3}, environ=os.environ)
    resolved.config.decoding.k            # 3
    resolved.origin["decoding.k"]         # "flag decoding.k"

Defaults < config file < environment (`SPECDEC_DECODING__K=3`) < flags. Nothing here imports torch.
"""

from specdec_cli.config.decoding_schema import AcceptanceConfig, DecodingConfig, GateConfig
from specdec_cli.config.fields import FamilyName
from specdec_cli.config.layers import parse_setting
from specdec_cli.config.locate import configs_folder, model_source, shipped_configs
from specdec_cli.config.model_schema import CloudConfig, EdgeConfig, ModelConfig, RoleConfig
from specdec_cli.config.resolve import ResolvedConfig, load_config
from specdec_cli.config.schema import Config, PromptConfig, RuntimeConfig
from specdec_cli.config.settings import SETTINGS

__all__ = [
    "SETTINGS",
    "AcceptanceConfig",
    "CloudConfig",
    "Config",
    "DecodingConfig",
    "EdgeConfig",
    "FamilyName",
    "GateConfig",
    "ModelConfig",
    "PromptConfig",
    "ResolvedConfig",
    "RoleConfig",
    "RuntimeConfig",
    "configs_folder",
    "load_config",
    "model_source",
    "parse_setting",
    "shipped_configs",
]
