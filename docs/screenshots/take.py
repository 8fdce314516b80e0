"""Photograph the built documentation and a report, at the width of a desk and of a phone, light and dark.

    python docs/screenshots/take.py docs/_build/html fastsbl-demo/report.html

writes the pictures beside itself. It needs chromium, chromedriver and selenium. They are kept to be looked at when the
style of either changes.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

DESK, PHONE = 1200, 390
HIGHEST = 1800


def photograph(browser: webdriver.Chrome, page: Path, target: Path, *, width: int, dark: bool) -> None:
    """Open a page and write the top of it as a small PNG."""
    theme = "dark" if dark else "light"
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page.resolve().as_uri())
    root = "document.documentElement"
    browser.execute_script(f"if ({root}.dataset.theme) {root}.dataset.theme = {root}.dataset.mode = '{theme}'")
    wide, high = browser.execute_script(f"return [{root}.scrollWidth, {root}.scrollHeight]")
    assert wide <= width, f"{target.name}: the page is {wide} wide, and the screen {width}"
    clip = {"x": 0, "y": 0, "width": width, "height": min(high, HIGHEST), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)


def main(site: Path, report: Path, folder: Path) -> None:
    """Take all pictures."""
    pages = {"first-page": site / "index.html", "screening": site / "screening.html", "report": report}
    options = Options()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in ("headless", "no-sandbox", "disable-gpu", "hide-scrollbars", f"user-data-dir={profile}"):
            options.add_argument(f"--{flag}")
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            for name, page in pages.items():
                for screen, width, dark in (("desk-light", DESK, False), ("phone-dark", PHONE, True)):
                    photograph(browser, page, folder / f"{name}-{screen}.png", width=width, dark=dark)
        finally:
            browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(__file__).parent)
