"""Pages as HTML. Every value is escaped by jinja2, also in attributes: all are quoted."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from cli.ui.fragments import Change, digest
from cli.ui.origins import PROXIED

if TYPE_CHECKING:
    from cli.ui.page import Page


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("cli.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["digest"] = digest
    return templates


def front(page: Page, *, csrf: str) -> str:
    return _html("front.html", page=page, csrf=csrf, proxied=PROXIED)


def fragment(change: Change) -> str:
    """The section or the row that has changed."""
    if change.row is None:
        return _html("section.html", section=change.section)
    return _html(f"rows/{change.section.id}.html", row=change.row)


def headline(page: Page) -> str:
    return _html("headline.html", headline=page.headline)


def moving_on(place: str) -> str:
    """A page that leads to another one of its origin at once."""
    return _html("moving_on.html", place=place)


def no_page(reason: str) -> str:
    return _html("no_page.html", reason=reason)


def answer_head(model: str, prompt: str) -> str:
    """The page of an answer up to where the answer begins, for browsers without JavaScript."""
    return _html("answer_head.html", model=model, prompt=prompt)


def answer_text(text: str) -> str:
    return _html("answer_text.html", text=text)


def answer_foot(figures: str, failure: str) -> str:
    return _html("answer_foot.html", figures=figures, failure=failure)


def _html(template: str, **values: Any) -> str:
    return _templates().get_template(template).render(**values)
