"""Visits of pages in a real browser that can reach nothing but the service."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from tests.support.patience import patient

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("chromium-browser")
"""Debian's headless shell first: it does the same for half the processor time."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # reaches this machine alone
]
NEEDED = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium-headless-shell)"
)
MARKS = [pytest.mark.browser, NEEDED]


@dataclass
class Visit:
    """A page, and what it tried and complained about."""

    page: Page
    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        expect.set_options(timeout=patient(5_000))
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@contextmanager
def visit(running: Browser, url: str, key: str | None = None, **options: Any) -> Iterator[Visit]:
    """Open a tab in which every request to anywhere but ``url`` is noted; key: what it has been told.

    Not by asking this process of each one: a page that does so keeps nothing from one visit to the next.
    """
    context = running.new_context(base_url=url, permissions=["clipboard-read", "clipboard-write"], **options)
    context.set_default_timeout(patient(10_000))
    page = context.new_page()
    tab = Visit(page)

    def note(request: Request) -> None:
        if not request.url.startswith((url, "data:", "blob:")):
            tab.outside.append(request.url)

    page.on("request", note)
    page.on("pageerror", lambda error: tab.complaints.append(str(error)))
    page.on("console", lambda line: tab.complaints.append(line.text) if line.type == "error" else None)
    if key is not None:
        page.add_init_script(f"sessionStorage.setItem('parsimony-key', {key!r})")
    yield tab
    context.close()
