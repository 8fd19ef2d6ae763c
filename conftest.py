"""Load the harness's plugin for this repository where it is not installed."""

from importlib.metadata import entry_points

_PLUGIN = "harness.pytest_plugin"

pytest_plugins = (
    [] if any(point.value == _PLUGIN for point in entry_points(group="pytest11")) else [_PLUGIN]
)
