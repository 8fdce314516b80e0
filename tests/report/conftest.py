"""A real browser for the report to be opened in."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("matplotlib", reason="reports need the extra apps")
pytest.importorskip("jinja2", reason="reports need the extra apps")
sys.path.append(str(Path(__file__).parents[1] / "helpers"))

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window, driven by selenium; what the system has, nothing is downloaded."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no chromium (or google-chrome) with its chromedriver is installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = binary
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        page = webdriver.Chrome(options=options, service=Service(driver))
        try:
            yield page
        finally:
            page.quit()


@pytest.fixture
def open_page(browser):
    """Open a file at a given width, light or dark, and tell what the browser had to say about it."""

    def run(path, *, width=1200, height=900, dark=False, media=""):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        for kind in ("browser", "performance"):
            browser.get_log(kind)  # forget what earlier pages did
        browser.get(path.as_uri())
        messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        return SimpleNamespace(
            driver=browser,
            run=browser.execute_script,
            console=browser.get_log("browser"),
            requests=[m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"],
        )

    return run
