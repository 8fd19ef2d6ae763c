"""A page that is one file: style, script and data are in it, and nothing else may be loaded."""

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
"""Name and address of another page, relative to this one."""


def rendered(
    title: str,
    subtitle: str,
    data: object,
    links: Sequence[Link] = (),
    template: str = "shell.html.jinja",
    package: str = "harness.report_page",
    **more: object,
) -> str:
    """Make a page.

    Args:
        title: Its heading.
        subtitle: A line below it.
        data: What its script draws, as plain data.
        links: Other pages.
        template: One that extends `shell.html.jinja`, or that itself.
        package: Where that template lies.
        more: What the template has beside these.

    Returns:
        HTML in which no text of `title`, `subtitle`, `links` and `data` is markup, or has control
        characters; in `data`, numbers that are not finite are text.
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
    r"""JSON that ends no element, and that a CI's log takes for no command.

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
    """What a browser lets the page do: this style and this script, and no markup made of text."""
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
