"""The page of a server in a real browser: what a person does with it."""

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
import uvicorn
from PIL import Image
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from radii.datasets import create
from radii.serving.model import ServedModel
from radii.serving.routes import Api
from radii.serving.service import Service
from tools import browser as browsers
from tools.browser import PHONE, browser, logged, look, violations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(bool(browsers.missing()), reason=browsers.missing()),
]

CSS = "css selector"
TOKEN = "a-token-of-sixteen-characters"


@pytest.fixture(scope="module")
def address(digits_model: ServedModel) -> Iterator[str]:
    """A server with a token, in a thread of this process."""
    service = Service(replace(digits_model), workers=1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(Api(service, [TOKEN]).app(), log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        server.should_exit = True
        thread.join()
    service.close()


@pytest.fixture(scope="module")
def driver() -> Iterator[Chrome]:
    with browser() as opened:
        yield opened


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = create("digits").split("test").batch(torch.tensor([0]))[0, 0].numpy()
    file = tmp_path / "zero.png"
    Image.fromarray((pixels * 255).round().astype(np.uint8)).save(file)
    return file


def ask(driver: Chrome, file: Path, token: str = TOKEN) -> None:
    field = driver.find_element(CSS, "#token input")
    field.clear()
    field.send_keys(token)
    driver.find_element(CSS, "#file").send_keys(str(file))


def text(driver: Chrome, selector: str) -> str:
    return str(driver.find_element(CSS, selector).text)


def wait_for(driver: Chrome, selector: str) -> None:
    WebDriverWait(driver, 60).until(lambda seen: seen.find_element(CSS, selector).is_displayed())


@pytest.mark.parametrize(("size", "scheme"), [(browsers.WIDE, "light"), (PHONE, "dark")], ids=["wide", "phone"])
def test_picture_gets_copies_votes_a_radius_and_changes(
    driver: Chrome, address: str, picture: Path, size: tuple[int, int], scheme: str
) -> None:
    logged(driver, "performance")
    look(driver, address, size=size, scheme=scheme)
    ask(driver, picture)
    wait_for(driver, "#change")
    assert text(driver, "#class") == "0"
    assert "0.1000" in text(driver, "#radius")
    assert "wrong with probability at most 0.001" in text(driver, "#promise")
    copies = driver.find_elements(CSS, "#copies li")
    assert len(copies) == 12
    assert sum(copy.text == "0" for copy in copies) > 6
    assert text(driver, "#votes li span").startswith("0")
    assert "length 0.1000" in text(driver, "#length")
    lengths = driver.execute_script(  # of the shown changes, from the pixels on the screen
        """const pixels = (id) => { const canvas = document.getElementById(id);
        return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data; };
        const original = pixels("original");
        return ["spread", "spot"].map((id) => Math.sqrt(pixels(id).reduce((sum, value, at) =>
            sum + (at % 4 ? 0 : ((value - original[at]) / 255) ** 2), 0)));"""
    )
    assert 0.03 < lengths[0] < 0.13
    assert 0.09 < lengths[1] < 0.105
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    if browsers.AXE.is_file():
        assert violations(driver) == []
    requests = [json.loads(entry["message"])["message"] for entry in logged(driver, "performance")]
    asked = [entry["params"]["request"]["url"] for entry in requests if entry["method"] == "Network.requestWillBeSent"]
    hosts = {urlsplit(url).netloc for url in asked if not url.startswith("data:")}
    assert hosts == {urlsplit(address).netloc}
    assert [entry for entry in logged(driver, "browser") if entry["level"] == "SEVERE"] == []


def test_browser_resizes_pictures_of_other_sizes(driver: Chrome, address: str, picture: Path, tmp_path: Path) -> None:
    with Image.open(picture) as image:
        image.resize((90, 80), Image.Resampling.NEAREST).save(tmp_path / "large.png")
    look(driver, address)
    ask(driver, tmp_path / "large.png")
    wait_for(driver, "#result")
    assert "8 x 8 pixels by your browser" in text(driver, "#prepared")
    logged(driver, "browser")  # the browser logs the first answer, 400


def test_errors_are_shown_on_the_page(driver: Chrome, address: str, picture: Path, tmp_path: Path) -> None:
    look(driver, address)
    ask(driver, picture, "wrong")
    WebDriverWait(driver, 60).until(lambda seen: "token is needed" in text(seen, "#status"))
    (tmp_path / "none.png").write_bytes(b"nothing")
    ask(driver, tmp_path / "none.png")
    WebDriverWait(driver, 60).until(lambda seen: "not a picture" in text(seen, "#status"))
    assert not driver.find_element(CSS, "#result").is_displayed()
    logged(driver, "browser")
