"""The page in a browser: how it is opened, and pictures of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Page

ARTIFACTS = Path(__file__).parents[2] / ".artifacts" / "page"
"""Screenshots of every run of the tests, for people to look at; never committed."""
PATIENCE_MS = 30_000
Opens = Callable[..., Awaitable[Page]]


async def keep_picture(page: Page, name: str) -> Path:
    """Keep what is shown, whole, among the artifacts."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    path = ARTIFACTS / f"{name}.png"
    await page.screenshot(path=path, full_page=True, animations="disabled")
    return path
