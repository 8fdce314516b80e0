"""The paper's experiments as studies: resumable, with figures as data and a verdict on each of its claims."""

from .claims import Claim, Interval, claims_markdown, markdown_table, median_interval
from .config import ConfigError, config_to_toml, parse_config, read_config, replace_config
from .environment import describe_environment
from .registry import find_study, study_names
from .runner import Progress, RunSummary, run_study, write_summary
from .store import Store, StoreError
from .study import Record, Study, Table, Unit

__all__ = [
    "Claim",
    "ConfigError",
    "Interval",
    "Progress",
    "Record",
    "RunSummary",
    "Store",
    "StoreError",
    "Study",
    "Table",
    "Unit",
    "claims_markdown",
    "config_to_toml",
    "describe_environment",
    "find_study",
    "markdown_table",
    "median_interval",
    "parse_config",
    "read_config",
    "replace_config",
    "run_study",
    "study_names",
    "write_summary",
]
