"""The page in Debian's Chromium, which shows what a person would see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cli.clusters.snapshot import take_snapshot
from cli.hosts.troubles import HERE
from tests.ui.chromium import chromium, missing_to_run
from tests.ui.served_page import ServedPage, served
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MISSING = missing_to_run()
pytestmark = [pytest.mark.binaries, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

AXE = Path(__file__).parent / "axe/axe.min.js"
SCRIPT = "<script>alert(1)</script>"
FEW, MANY = 3, 1_000
NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
HANG_MS = HANG_S * 1000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    with served_with(FEW, tmp_path_factory.mktemp("few")) as page:
        yield page


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    with served_with(MANY, tmp_path_factory.mktemp("many")) as page:
        yield page


@pytest.fixture(params=["page", "long_page"], ids=[FEW, MANY])
def either(request: pytest.FixtureRequest) -> ServedPage:
    page: ServedPage = request.getfixturevalue(request.param)
    return page


@contextmanager
def served_with(models: int, folder: Path) -> Iterator[ServedPage]:
    names = [SCRIPT, *(f"model-{number:04}" for number in range(1, models))]
    with served(names, folder) as page:
        page.platform.broken = {"model-0002"}
        page.platform.active = {"model-0001": 11}
        yield page


@dataclass(kw_only=True)
class Tab:
    page: Page
    complaints: list[str] = field(default_factory=list)  # of the console, and uncaught errors
    requested: set[str] = field(default_factory=set)  # hosts


@contextmanager
def tab(browser: Browser, page: ServedPage, path: str = "/", **context: Any) -> Iterator[Tab]:
    """The page in a window of its own, with a session."""
    window = browser.new_context(**({"viewport": WIDE} | context))
    window.set_default_timeout(HANG_MS)
    shown = Tab(page=window.new_page())
    shown.page.on("console", lambda said: shown.complaints.append(f"{said.type}: {said.text}"))
    shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    shown.page.on("request", lambda asked: shown.requested.add(asked.url.split("/")[2]))
    try:
        shown.page.goto(page.origin("").url + page.another_address())
        shown.page.wait_for_selector("#headline")
        if path != "/":
            shown.page.goto(page.origin("").url + path)
        yield shown
    finally:
        window.close()


def figures_of(shown: Page, section: str) -> list[list[str]]:
    """The cells of each row, as a person sees them."""
    rows = shown.eval_on_selector_all(
        f"#{section} tbody tr",
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))",
    )
    return [[re.sub(r"\s+", " ", cell).strip() for cell in row] for row in rows]


def status_of(page: ServedPage) -> dict[str, Any]:
    """The document of `slipway status --json`."""
    return take_snapshot(page.environment, page.platform.applied, HERE)


def test_its_figures_are_those_of_status(browser: Browser, either: ServedPage) -> None:
    status = status_of(either)
    with tab(browser, either) as shown:
        models = {row[0]: row for row in figures_of(shown.page, "models")}
        replicas = figures_of(shown.page, "replicas")
        nodes = figures_of(shown.page, "nodes")
        jobs = figures_of(shown.page, "jobs")
        endpoints = figures_of(shown.page, "endpoints")
        targets = figures_of(shown.page, "targets")
        facts = shown.page.eval_on_selector_all("dd", "all => all.map(each => each.textContent)")
    assert models.keys() == status["models"].keys()
    for name, told in status["models"].items():
        assert (models[name][1] == "serves") == (told["ready"] and told["acknowledged"]), name
    ready = sum(each["ready"] for each in status["models"].values())
    running = sum(each["status"] == "running" for each in status["replicas"])
    flying = sum(each["active_requests"] for each in status["endpoints"])
    assert facts[:4] == [
        f"{ready:,} of {len(models):,}",
        f"{running:,}",
        str(len(status["nodes"])),
        str(flying),
    ]
    assert sorted(replicas) == sorted(
        [
            f"{r['name']} {r['allocation'][:8]}",
            r["status"],
            r["node"],
            str(r["restarts"]),
            r["said"],
        ]
        for r in status["replicas"]
    )
    placed = [each["node"] for each in status["replicas"]]
    assert sorted(nodes) == sorted(
        [n["name"], n["status"], n["pool"], n["address"], "yes", str(placed.count(n["name"]))]
        for n in status["nodes"]
    )
    assert [row[:4] for row in jobs] == [
        [j["id"], j["status"], str(j["running"]), str(j["waiting"])] for j in status["jobs"]
    ]
    assert endpoints == [
        [e["cluster"], e["address"], "healthy", str(e["active_requests"])]
        for e in status["endpoints"]
    ]
    assert targets == [[t["service"], t["address"], "up", t["error"]] for t in status["targets"]]


def test_what_wants_attention_comes_first_and_is_told_why(
    browser: Browser, page: ServedPage
) -> None:
    with tab(browser, page) as shown:
        first, *_ = figures_of(shown.page, "models")
        busy = next(row for row in figures_of(shown.page, "models") if row[0] == "model-0001")
    assert first[:3] == ["model-0002", "starting", "0 of 2 1 to 4"]
    assert busy[3].startswith("11 in flight at 8 a replica call for 2; scaled from 1 to 2, ")
    assert busy[4] == "11"
    assert busy[7].endswith("ms ≤ 500 ms")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_it_is_quiet_alone_accessible_and_fits(
    browser: Browser, page: ServedPage, scheme: str, viewport: dict[str, int]
) -> None:
    with tab(browser, page, viewport=viewport, color_scheme=scheme, bypass_csp=True) as shown:
        shown.page.wait_for_selector("#drawn canvas")
        assert width_of(shown.page) == viewport["width"]
        assert serious_findings(shown.page) == []
    assert shown.requested == {page.origin("").host}
    assert shown.complaints == []


def test_a_long_page_is_as_well(browser: Browser, long_page: ServedPage) -> None:
    with tab(browser, long_page, color_scheme="dark", bypass_csp=True) as shown:
        shown.page.wait_for_selector("#drawn canvas")
        assert width_of(shown.page) == WIDE["width"]
        shown.page.set_viewport_size(NARROW)
        assert width_of(shown.page) == NARROW["width"]
        assert serious_findings(shown.page) == []
    assert shown.requested == {long_page.origin("").host}
    assert shown.complaints == []


def width_of(shown: Page) -> int:
    """Of all that can be scrolled to, in CSS pixels."""
    return int(shown.evaluate("document.documentElement.scrollWidth"))


def serious_findings(shown: Page) -> list[str]:
    """Of axe-core, which is asked about the page's own HTML and styles."""
    shown.add_script_tag(path=AXE)
    # Of a thousand alike rows it would say the same a thousand times, and take minutes for it.
    shown.evaluate(
        "document.querySelectorAll('tbody tr:nth-child(n+6)').forEach(row => row.remove())"
    )
    found = shown.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html']}"
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
    ]


def test_its_policy_is_kept_while_it_lives_and_changes(browser: Browser, page: ServedPage) -> None:
    page.platform.broken = {"model-0002"}
    with tab(browser, page) as shown:
        shown.page.wait_for_selector("#drawn canvas")
        row = shown.page.locator("[id='model-model-0001']")
        page.platform.broken = {"model-0001", "model-0002"}
        row.get_by_text("starting").wait_for()
        page.platform.broken = {"model-0002"}
        row.get_by_text("serves").wait_for()
        ask(shown.page)
        assert shown.page.inner_text("#answer") == "Paris is the capital <b>of</b> France."
        assert "12 tokens" in shown.page.inner_text("#speed")
    assert shown.complaints == []
    assert shown.requested == {page.origin("").host}


def ask(shown: Page) -> None:
    shown.select_option("#model", "model-0001")
    shown.click("#ask button")
    shown.get_by_text("tokens/s").last.wait_for()
    shown.locator("#answer[aria-busy=false]").wait_for()


def test_what_a_person_opened_stays_open_while_it_changes(
    browser: Browser, page: ServedPage
) -> None:
    with tab(browser, page) as shown:
        shown.page.click("#endpoints summary")
        page.platform.broken = {"model-0001", "model-0002"}
        shown.page.locator("[id='model-model-0001']").get_by_text("starting").wait_for()
        page.platform.broken = {"model-0002"}
        shown.page.locator("[id='model-model-0001']").get_by_text("serves").wait_for()
        assert shown.page.eval_on_selector("#endpoints details", "each => each.open")


def test_a_tab_that_nobody_looks_at_holds_no_connection(browser: Browser, page: ServedPage) -> None:
    page.platform.broken = {"model-0002"}
    with tab(browser, page, "/?name=model-0001") as shown:
        with shown.page.expect_event("requestfailed", lambda each: "/events" in each.url):
            look(shown.page, "hidden")
        page.platform.broken = {"model-0001", "model-0002"}
        look(shown.page, "visible")
        shown.page.locator("[id='model-model-0001']").get_by_text("starting").wait_for()
        page.platform.broken = {"model-0002"}
    assert shown.complaints == []


def look(shown: Page, state: str) -> None:
    """As when a person goes to another tab or comes back, which this browser has no window for."""
    shown.evaluate(
        "state => { Object.defineProperty(document, 'visibilityState', {value: state,"
        " configurable: true}); document.dispatchEvent(new Event('visibilitychange')); }",
        state,
    )


def test_it_is_whole_without_javascript(browser: Browser, page: ServedPage) -> None:
    with tab(browser, page, java_script_enabled=False) as shown:
        assert shown.page.locator("#models tbody tr").count() == len(page.platform.models)
        shown.page.fill("#name", "model-0001")
        shown.page.click(".filter button")
        assert shown.page.locator("#models tbody tr").count() == 1
        with shown.page.context.expect_page() as opened:
            shown.page.click("#ask button")
        answer = opened.value
        answer.get_by_text("tokens/s").wait_for()
        assert "Paris is the capital <b>of</b> France." in answer.inner_text("#answer")
    assert shown.requested == {page.origin("").host}


def test_nomads_and_consuls_pages_open_from_it(browser: Browser, page: ServedPage) -> None:
    with tab(browser, page) as shown:
        for name in ("Nomad", "Consul"):
            with shown.page.context.expect_page() as opened:
                shown.page.get_by_role("link", name=name).first.click()
            opened.value.locator(f"#{name.lower()}").wait_for()
            assert opened.value.url.startswith(f"{page.origin(name.lower()).url}/ui/")


def test_other_ports_of_this_machine_do_not_get_its_cookie(
    browser: Browser, page: ServedPage
) -> None:
    with tab(browser, page) as shown:
        page.platform.seen.clear()
        shown.page.context.new_page().goto(f"{page.platform.applied.nomad}/ui/elsewhere")
    (visit,) = (each for each in page.platform.seen if each.path == "/ui/elsewhere")
    assert "cookie" not in visit.headers


def test_another_site_gets_nothing_of_it(
    browser: Browser, page: ServedPage, tmp_path: Path
) -> None:
    """A page elsewhere embeds it, posts its form and reads it, in the browser with the session."""
    evil, url = tmp_path / "evil.html", page.origin("").url
    evil.write_text(
        f"<iframe src='{url}/'></iframe><script src='{url}/charts'></script>"
        f"<form id=f method=post action='{url}/chat'><input name=model value=model-0001>"
        "<input name=prompt value=x></form>"
    )
    with tab(browser, page) as shown:
        page.platform.seen.clear()
        other = shown.page.context.new_page()
        other.route("http://evil.example/*", lambda route: route.fulfill(path=evil))
        other.goto("http://evil.example/")
        read = other.evaluate(f"fetch('{url}/').then(() => 'read', () => 'refused')")
        framed = [frame.url for frame in other.frames if frame != other.main_frame]
        with other.expect_navigation() as posted:
            other.evaluate("document.getElementById('f').submit()")
    assert read == "refused"
    assert framed != [f"{url}/"]
    assert posted.value.status in {401, 403}
    assert not [each for each in page.platform.seen if each.server == "gateway"]
