"""Open the page of a report in a headless browser: `python -m tools.browser PAGE FOLDER` takes screenshots."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

BROWSERS, DRIVERS = ("chromium", "google-chrome", "chromium-browser"), ("chromedriver",)
AXE = Path(__file__).parents[1] / ".venv" / "axe" / "package" / "axe.min.js"
"""Where scripts/browser puts axe-core, the accessibility checker."""
WIDE, PHONE = (1200, 900), (400, 860)
TALL = 1800
"""The height of the screenshots, to show the table and the curves."""
QUIET = ("no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars", "force-color-profile=srgb")


def missing() -> str:
    """Return a sentence about what is not installed; empty if nothing is missing."""
    wanted = {"chromium": BROWSERS, "chromedriver": DRIVERS}
    absent = [name for name, names in wanted.items() if not any(map(shutil.which, names))]
    return f"{' and '.join(absent)} is not installed: scripts/browser installs it as root" if absent else ""


@contextmanager
def browser(*, script: bool = True) -> Iterator[Chrome]:
    """A headless browser that logs its console and its requests."""
    options = ChromeOptions()
    options.binary_location = next(path for path in map(shutil.which, BROWSERS) if path)
    for argument in ("headless=new", *QUIET):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if not script:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    driver = Chrome(options=options, service=Service(shutil.which(DRIVERS[0])))
    try:
        yield driver
    finally:
        driver.quit()


def look(
    driver: Chrome, page: Path | str, *, size: tuple[int, int] = WIDE, scheme: str = "light", media: str = ""
) -> None:
    """Open a page, a file or an address, in a window of this size, light or dark, as a screen shows it or a printer."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    driver.get(page if isinstance(page, str) else page.resolve().as_uri())


def hover(driver: Chrome, across: float) -> None:
    """Move the pointer over the curves, to a share of their width."""
    curves = driver.find_element(By.CSS_SELECTOR, "#curves svg")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", curves)
    width = curves.size["width"]
    ActionChains(driver).move_to_element_with_offset(curves, round((across - 0.5) * width), 0).perform()


def logged(driver: Any, kind: str) -> list[dict[str, Any]]:
    """Return what the browser logged since the last call: its console, `browser`, or its requests, `performance`."""
    return list(driver.get_log(kind))


def violations(driver: Chrome) -> list[str]:
    """Return what axe-core finds inaccessible on the open page."""
    driver.execute_script(AXE.read_text())
    run = "axe.run(document).then(arguments[arguments.length - 1])"
    found: dict[str, Any] = driver.execute_async_script(run)
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]


def shots(driver: Chrome, page: Path, folder: Path) -> list[Path]:
    """Take the screenshots of the manual: light, dark, phone, hover."""
    tall = {"size": (WIDE[0], TALL)}
    looks: dict[str, dict[str, Any]] = {
        "light": tall,
        "dark": {**tall, "scheme": "dark"},
        "phone": {"size": (PHONE[0], TALL)},
    }
    taken = []
    for name, choice in looks.items():
        look(driver, page, **choice)
        taken.append(folder / f"report-{name}.png")
        driver.save_screenshot(str(taken[-1]))
    look(driver, page)
    hover(driver, 0.6)
    taken.append(folder / "report-hover.png")
    driver.save_screenshot(str(taken[-1]))
    return taken


def compact(path: Path) -> None:
    """Rewrite a screenshot without its alpha channel, as small as it can be without changing a colour."""
    from PIL import Image

    with Image.open(path) as image:
        opaque = image.convert("RGB")
    opaque.save(path, optimize=True)


def main(page: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as driver:
        for path in shots(driver, page, folder):
            compact(path)
            print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
