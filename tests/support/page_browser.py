"""The page in a browser: how it is opened, and pictures of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Page

ARTIFACTS = Path(__file__).parents[2] / ".artifacts" / "page"
"""Screenshots of every run of the tests, for people to look at; never committed."""
PATIENCE_MS = 30_000
Opens = Callable[..., Awaitable[Page]]

PRESSED_OR_DARK = """() => {
    const isSeen = (one) => one.checkVisibility({ visibilityProperty: true });
    const paper = getComputedStyle(document.body), title = getComputedStyle(document.querySelector("h1"));
    const told = "th > button, .turn, .sample-head, .fold";
    const all = (names) => [...document.querySelectorAll(names)].filter(isSeen);
    const isCut = (one) => one.scrollHeight > one.clientHeight + 2 && getComputedStyle(one).overflowY !== "visible";
    const wrong = all("button, input, select, nav a, header.top").filter((one) => !one.matches(told));
    return [...wrong, ...all("pre, .scroll, .diff, .virtual").filter(isCut)].map((one) => one.outerHTML.slice(0, 120))
        .concat(paper.backgroundColor === "rgb(255, 255, 255)" ? [] : [paper.backgroundColor])
        .concat(title.color === "rgb(0, 0, 0)" ? [] : [title.color]);
}"""
"""What does not belong on paper: what is there to be pressed, what is cut off by a scrolling place, and dark paper."""


async def wrong_on_paper(page: Page, name: str) -> list[str]:
    """What a print of what is shown has that does not belong there, in whichever colours the screen is; with a picture."""
    await page.emulate_media(media="print", color_scheme="dark")
    found: list[str] = await page.evaluate(PRESSED_OR_DARK)
    await keep_picture(page, f"printed-{name}")
    await page.emulate_media(media="screen", color_scheme="light")
    return found


async def keep_picture(page: Page, name: str) -> Path:
    """Keep what is shown, whole, among the artifacts."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    path = ARTIFACTS / f"{name}.png"
    await page.screenshot(path=path, full_page=True, animations="disabled")
    return path
