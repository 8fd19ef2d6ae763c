"""Load pytest's plugin `pytester`, and the harness's plugin if it is not installed."""

from importlib.metadata import entry_points

_PLUGIN = "harness.pytest_plugin.plugin"

_is_installed = any(point.value == _PLUGIN for point in entry_points(group="pytest11"))
pytest_plugins = ["pytester"] if _is_installed else ["pytester", _PLUGIN]
