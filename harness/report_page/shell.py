"""An HTML page in one file: it contains its style, script and data, and may load nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from harness.system.escape import one_line, visible

Link = tuple[str, str]
"""Name and address of another page; the address is relative to this page."""


def rendered(
    title: str,
    subtitle: str,
    data: object,
    links: Sequence[Link] = (),
    template: str = "shell.html.jinja",
    package: str = "harness.report_page",
    **more: object,
) -> str:
    """Render an HTML page in one file.

    Args:
        title: Heading of the page.
        subtitle: Line below the heading.
        data: Plain data that the page's script draws.
        links: Other pages, to which this page links.
        template: `shell.html.jinja`, or a template that extends it.
        package: Package that contains the template.
        more: Further variables of the template.

    Returns:
        The page as HTML. Text in `title`, `subtitle`, `links` and `data` is escaped and has no
        control characters. In `data`, numbers that are not finite become text.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "."), PackageLoader(__package__, ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    here = files("harness.report_page")
    style, script = (here.joinpath(name).read_text() for name in ("page.css", "page.js"))
    variables: Mapping[str, object] = {
        "title": one_line(title),
        "subtitle": one_line(subtitle),
        "links": [(one_line(name), address) for name, address in links],
        "data": _embedded(data),
        "style": style,
        "script": script,
        "policy": _policy(style, script),
        **more,
    }
    return environment.get_template(template).render(variables)


def _embedded(data: object) -> str:
    r"""Return data as JSON that cannot end the script element, nor be a command in a CI log.

    >>> print(_embedded({"x": "</script>##[error]"}))
    {"x":"\u003c/script>#\u0023[error]"}
    """
    text = json.dumps(_harmless(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace("##[", r"#\u0023[")


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_harmless(key): _harmless(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(each) for each in value]
    return value


def _policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that allows only this style and this script.

    The policy also keeps the script from turning text into markup (Trusted Types).
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
