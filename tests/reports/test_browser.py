"""The page of a report in a real browser: what a reader does with it."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver import Chrome

from radii import disk
from radii.reports.report import report
from radii.runs import attacks, gallery
from radii.runs.attacks import AttackedImage
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from tests.reports.samples import write_log, write_run
from tools import browser as browsers
from tools.browser import PHONE, browser, hover, logged, look, violations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(bool(browsers.missing()), reason=browsers.missing()),
]

IMAGES = 120
CSS = "css selector"
A4 = (718, 1047)
"""The page between the margins that the browser prints with."""

SPEC = b'{"__metadata__":{"spec":"{\\"shape\\":[1,8,8],\\"class_names\\":[\\"cat\\",\\"dog\\"]}"}}'


def run_with_everything(folder: Path, strength: float) -> Path:
    """Write a run with certificates, pictures, an attack and a history."""
    run, rng = write_run(folder), np.random.default_rng(0)
    disk.write(run.weights_file, len(SPEC).to_bytes(8, "little") + SPEC)
    run.write_history([{"epoch": n, "seconds": 2.0, "loss": 2.0 - n, "noisy_test_accuracy": 0.3 * n} for n in range(3)])
    weights = disk.digest(run.weights_file)
    header = {
        "procedure": "fixed",
        "parameters": {"failure": 0.001},
        "sigma": 0.25,
        "weights": weights,
        "data": "d",
        "seed": 0,
    }
    file = CertificateFile(run.certificates / "fixed-0.tsv", header)
    for index in range(IMAGES):
        radius, right = float(strength * rng.random()), index % 10 > 0
        counts = {index % 2: 900 + index % 90, 1 - index % 2: 10}
        answer = index % 2 if right else 1 - index % 2
        file.append(Row(index, index % 2, answer, radius, 0.1, 1000, counts, f"{index:016x}"))
    rows = gallery.chosen(file.rows())
    pictures = {str(row.index): rng.random((1, 8, 8), np.float32) for row in rows}
    gallery.write(gallery.pictures_file(file.path), pictures, {str(row.index): row.digest for row in rows})
    attack = {
        "weights": weights,
        "data": "d",
        "engine": "torch",
        "noise": {"name": "gaussian", "sigma": 0.25},
        "steps": 5,
        "copies": 2,
    }
    with attacks.open_file(run, {**attack, "samples": 100, "radii": [0.5, 1.0], "seed": 0, "images": [1]}) as hit:
        hit.append(AttackedImage(1, 1, 1, 0.75, 0, 0.1, f"{1:016x}"))
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    runs = [run_with_everything(folder / name, strength) for name, strength in (("plain", 0.6), ("robust", 0.9))]
    return report(runs, folder / "report", title="In a browser")


@pytest.fixture(scope="module")
def driver() -> Iterator[Chrome]:
    with browser() as opened:
        yield opened


def texts(driver: Chrome, selector: str) -> list[str]:
    return [element.text for element in driver.find_elements(CSS, selector)]


def value(driver: Chrome) -> str:
    return str(driver.find_element(CSS, ".controls output").text)


def test_hover_reads_all_runs_at_one_radius(driver: Chrome, page: Path) -> None:
    look(driver, page)
    hover(driver, 0.3)
    near, before = float(value(driver)), texts(driver, ".readout td")
    hover(driver, 0.7)
    far, after = float(value(driver)), texts(driver, ".readout td")
    assert 0 < near < far < 0.9
    assert before != after
    assert texts(driver, ".readout tbody th") == ["plain", "robust"]
    _, _, attacked, first, certified, interval, _, difference = after
    assert float(certified) < 60
    assert "–" in interval  # noqa: RUF001
    assert attacked == "100.0"
    assert first == "–", "the first input is compared with itself"  # noqa: RUF001
    assert difference.startswith("+")


def test_keyboard_reads_radii(driver: Chrome, page: Path) -> None:
    look(driver, page)
    slider = driver.find_element(CSS, ".controls input")
    slider.send_keys("\ue011")  # Home
    assert value(driver) == "0.00"
    slider.send_keys("\ue014" * 3)  # three times to the right
    assert value(driver) == "0.03"
    assert str(slider.get_attribute("aria-valuetext")).startswith("radius 0.03: plain ")


def test_toggles_hide_a_run_in_all_figures(driver: Chrome, page: Path) -> None:
    look(driver, page)
    box = driver.find_elements(CSS, ".legend input")[1]
    parts = "svg g.run-1, .readout .run-1"
    assert len(driver.find_elements(CSS, parts)) >= 4
    for shown in (False, True):
        box.click()
        assert {part.is_displayed() for part in driver.find_elements(CSS, parts)} == {shown}
        assert all(part.is_displayed() for part in driver.find_elements(CSS, "svg g.run-0"))


def test_axis_in_l_infinity(driver: Chrome, page: Path) -> None:
    look(driver, page)
    before = texts(driver, "#curves .tick")
    driver.find_element(CSS, ".controls option[value=linf]").click()
    assert texts(driver, "#curves .tick") != before
    assert "l-infinity" in driver.find_element(CSS, "#curves .name").text
    assert value(driver).endswith("/255")
    driver.find_element(CSS, ".controls option[value=l2]").click()
    assert texts(driver, "#curves .tick") == before


def test_tables_are_sorted(driver: Chrome, page: Path) -> None:
    look(driver, page)
    first = "table.sortable"
    acr = driver.find_element(CSS, f"{first} thead th:nth-child(3) button")
    acr.click()
    assert texts(driver, f"{first} tbody th")[:2] == ["robust", "plain"]
    assert acr.find_element("xpath", "..").get_attribute("aria-sort") == "descending"
    acr.click()
    assert texts(driver, f"{first} tbody th")[:2] == ["plain", "robust"]


def test_times_are_sorted_by_length_and_words_by_letters(driver: Chrome, tmp_path: Path) -> None:
    times = {
        "short": ("0.5", 7),
        "long": ("7000", 8),
        "middle": ("130", 9),
        "a day": ("90000", 10),
        "minute": ("61", 11),
    }
    for name, (seconds, index) in times.items():
        write_log(tmp_path / f"{name}.tsv", (0, 3, 3, 1.0), (index, 3, 3, 1.0), time=seconds)
    look(driver, report([tmp_path / f"{name}.tsv" for name in times], tmp_path / "out"))
    buttons = driver.find_elements(CSS, ".facts button")
    (time,) = [button for button in buttons if button.text.startswith("Certification time")]
    driver.execute_script("arguments[0].click()", time)
    assert texts(driver, ".facts table.sortable tbody th") == ["a day", "long", "middle", "minute", "short"]
    (images,) = [button for button in buttons if button.text.startswith("Images")]
    driver.execute_script("arguments[0].click()", images)
    assert texts(driver, ".facts table.sortable tbody th") == ["minute", "a day", "middle", "long", "short"]


def test_histograms_are_not_sorted(driver: Chrome, page: Path) -> None:
    look(driver, page)
    head = driver.find_element(CSS, "[aria-label='Votes and samples'] thead")
    assert [button.text for button in head.find_elements(CSS, "button")] == [
        "Median share",
        "Samples per image",
        "Median samples",
        "Samples in all",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(driver: Chrome, page: Path, scheme: str) -> None:
    look(driver, page, scheme=scheme)
    colour = driver.find_element(CSS, "body").value_of_css_property("background-color")
    bright = sum(int(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3])
    assert bright > 700 if scheme == "light" else bright < 100


def test_phone_scrolls_down_only(driver: Chrome, page: Path) -> None:
    look(driver, page, size=PHONE)
    assert driver.execute_script("return document.documentElement.scrollWidth") == PHONE[0]
    wider = "return [...document.querySelectorAll('body *')].filter(e => getComputedStyle(e).overflowX === 'auto'"
    assert driver.execute_script(f"{wider} && e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)") == []
    covered = "e => e.getBoundingClientRect().right > e.closest('td').getBoundingClientRect().right"
    assert driver.execute_script(f"return [...document.querySelectorAll('svg.bars')].filter({covered}).length") == 0
    assert driver.execute_script("return document.querySelectorAll('svg.bars').length") > 0
    label = "return getComputedStyle(document.querySelector('.card td[data-label]'), '::before').content"
    assert driver.execute_script(label) != "none", "every value has its title beside it"
    size = "return parseFloat(getComputedStyle(document.querySelector('#curves .tick')).fontSize)"
    wide = "return document.querySelector('#curves svg').getBoundingClientRect().width"
    assert driver.execute_script(size) * driver.execute_script(wide) / 720 >= 10, "the ticks are large enough to read"


def test_page_is_printed_dark_on_white_with_all_details(driver: Chrome, page: Path) -> None:
    look(driver, page, scheme="dark", media="print")
    body, controls = driver.find_element(CSS, "h1"), driver.find_element(CSS, ".controls")
    assert body.value_of_css_property("color") == "rgba(28, 36, 48, 1)", "dark on white, whatever the screen is"
    assert not controls.is_displayed()
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert base64.b64decode(printed).startswith(b"%PDF")
    assert len(driver.find_elements(CSS, "details:not([open])")) == 0


def test_tables_of_nine_inputs_are_not_cut_in_print(driver: Chrome, tmp_path: Path) -> None:
    rows = [(n, n % 10, n % 10, round(0.01 * n, 2)) for n in range(150)]
    paths = [write_log(tmp_path / f"smoothmix-to-lenet-{name}.tsv", *rows) for name in "abcdefghi"]
    look(driver, report(paths, tmp_path / "out"), size=A4, media="print")
    sizes = "return Array.from(document.querySelectorAll('.card')).map(card => [card.clientWidth, card.scrollWidth])"
    assert [wide for shown, wide in driver.execute_script(sizes) if wide > shown] == []


def test_no_console_error_and_no_request(driver: Chrome, page: Path) -> None:
    logged(driver, "browser")
    logged(driver, "performance")
    look(driver, page)
    hover(driver, 0.5)
    assert logged(driver, "browser") == []
    events = [json.loads(line["message"])["message"] for line in logged(driver, "performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert [address for address in sent if not address.startswith("data:")] == [page.resolve().as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(driver: Chrome, page: Path, scheme: str) -> None:
    if not browsers.AXE.is_file():
        pytest.skip("axe-core is not installed: scripts/browser installs it with npm")
    look(driver, page, scheme=scheme)
    assert violations(driver) == []


def test_page_is_complete_without_script(page: Path) -> None:
    with browser(script=False) as driver:
        look(driver, page)
        assert driver.find_elements(CSS, ".controls") == []
        assert texts(driver, "ul.legend li") == ["plain", "robust"]
        assert len(driver.find_elements(CSS, "#curves path.curve")) == 2
        assert driver.find_element(CSS, ".gallery img").is_displayed()
        assert "robust Within radius 0.50 (l2)" in driver.find_element(CSS, ".headlines").text
