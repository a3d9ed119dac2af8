"""Publishers' files: found, downloaded, refused."""

import threading
from collections.abc import Iterator
from functools import partial
from hashlib import md5
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from radii import datasets
from radii.datasets import DataError
from radii.datasets._files import Published, locate

NAMES = ["mnist", "fashion_mnist", "cifar10", "cifar100", "svhn"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "one.bin").write_bytes(b"one")
    (tmp_path / "data").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "site"))) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_missing_file_is_downloaded_and_checked(site: str, tmp_path: Path) -> None:
    file = Published(f"{site}/one.bin", md5(b"one").hexdigest())
    (path,) = locate("svhn", tmp_path / "data", [file])
    assert path == tmp_path / "data" / "svhn" / "one.bin"
    assert path.read_bytes() == b"one"


def test_a_download_of_another_hash_is_refused(site: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not match the known hash"):
        locate("svhn", tmp_path / "data", [Published(f"{site}/one.bin", md5(b"two").hexdigest())])
    assert not list((tmp_path / "data").rglob("*.bin"))


def test_existing_file_is_not_replaced(site: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "svhn").mkdir()
    (tmp_path / "data" / "svhn" / "two.bin").write_bytes(b"mine")
    files = [Published(f"{site}/{name}.bin", md5(b"one").hexdigest()) for name in ("one", "two")]
    assert [path.read_bytes() for path in locate("svhn", tmp_path / "data", files)] == [
        b"one",
        b"mine",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_without_a_network_the_error_says_what_to_put_where(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: Any, **__: Any) -> str:
        raise ConnectionError("pages of it")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    files = {
        "mnist": "train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz",
        "fashion_mnist": "train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz",
        "cifar10": "cifar-10-binary.tar.gz (or its folder cifar-10-batches-bin)",
        "cifar100": "cifar-100-binary.tar.gz (or its folder cifar-100-binary)",
        "svhn": "train_32x32.mat",
    }
    with pytest.raises(DataError) as caught:
        datasets.create(name, tmp_path).split("train")
    assert f"put {files[name]} into {tmp_path / name}, or name" in str(caught.value)
    assert "pages of it" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_missing_folder_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        datasets.create(name, tmp_path / "nowhere").split("train")
