"""Runs on the Hugging Face hub: pushed to and pulled from a stand-in of its HTTP interface, and its offline cache."""

import base64
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import radii
from radii import certifiers, disk
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.population import certify_run_population
from radii.certifiers.population import OnePass
from radii.errors import MissingExtraError, ParameterError
from radii.interop.hub import Address, named_code, pull, push
from radii.runs import population
from radii.runs.run import Run
from radii.runs.trust import UntrustedError

ADDRESS = "hf://owner/name"


class Hub:
    """Repositories by name, each a dictionary of files; every commit has a new number."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.commits = 1
        self.private: list[Any] = []
        self.requests: list[str] = []

    @property
    def sha(self) -> str:
        return f"{self.commits:040x}"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        """Answer a request with a status, headers, and JSON or the content of a file."""
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'owner'}/{asked['name']}"
            self.private.append(asked.get("private", asked.get("visibility")))
            self.repositories.setdefault(name, {})
            return 200, {}, {"url": f"{self.endpoint}/{name}", "id": name}
        if path == "/api/validate-yaml":
            return 200, {}, {"errors": [], "warnings": []}
        if found := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)/(\w+)/[\w.-]+", path):
            name, what = found[1], found[2]
            if name not in self.repositories:
                return 404, {"X-Error-Code": "RepoNotFound"}, {"error": "no such repository"}
            return 200, {}, self.api(what, self.repositories[name], name, body)
        if found := re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/\w+/(.+)", path):
            content = self.repositories.get(found[1], {}).get(found[2])
            if content is None:
                return 404, {"X-Error-Code": "EntryNotFound"}, {}
            return 200, {"X-Repo-Commit": self.sha, "ETag": f'"{abs(hash(content))}"'}, content
        return 404, {}, {"error": f"the stand-in has no {method} {path}"}

    def api(self, what: str, files: dict[str, bytes], name: str, body: bytes) -> Any:
        if what == "preupload":
            asked = json.loads(body)["files"]
            return {"files": [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in asked]}
        if what == "tree":
            return [{"type": "file", "path": path, "size": len(files[path]), "oid": "0" * 40} for path in files]
        if what == "commit":
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                elif line["key"] == "deletedFile":
                    del files[line["value"]["path"]]
            self.commits += 1
            return {"success": True, "commitUrl": f"{self.endpoint}/{name}/commit/{self.sha}", "commitOid": self.sha}
        return {"id": name, "modelId": name, "sha": self.sha, "siblings": [{"rfilename": path} for path in files]}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine, with an empty cache."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="the extra radii[hf] is not installed")
    standin = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            standin.requests.append(f"{self.command} {path}")
            status, headers, content = standin.answer(self.command, path, body)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_HEAD = do_POST = do_GET  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    standin.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, standin.endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", standin.endpoint)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_XET_CACHE", str(tmp_path / "xet"))
    monkeypatch.setenv("HF_TOKEN", "hf_stand_in")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    yield standin
    server.shutdown()
    server.server_close()


@pytest.fixture
def certified(digits_run: Callable[..., Run]) -> Run:
    """A trained run with two certificates, and files that are nobody's business."""
    run = digits_run("mine")
    fixed = certifiers.create("fixed", estimation=200)
    certify_run(CertificationConfig(run=run.path, certifier=fixed, max_images=2, engine="torch"), workers=1)
    disk.write_json(run.origin_file, {"teacher": {"path": "../secret-project/teacher", "hash": "0" * 64}})
    return Run(run.path)


def test_pushed_run_is_pulled_equal(hub: Hub, certified: Run, tmp_path: Path) -> None:
    page = push(certified, ADDRESS)
    assert page.endswith(f"commit/{hub.sha}")
    files = hub.repositories["owner/name"]
    assert {"recipe.toml", "model.safetensors", "README.md"} <= set(files)
    assert not any(name.startswith(("pictures", "origin", "checkpoint", "events")) for name in files)
    assert b"secret-project" not in b"".join(files.values())
    run = pull(ADDRESS, tmp_path / "pulled")
    assert run.weights_digest() == certified.weights_digest()
    assert run.recipe == certified.recipe
    assert len(radii.read_results(run.path)) == 2
    assert not any(path.is_symlink() for path in run.path.rglob("*"))
    assert radii.verify(run, rows=1).equal
    assert radii.load(run, engine="torch").classes == 10


@pytest.mark.usefixtures("hub")
def test_proofs_about_a_population_are_pushed_too(certified: Run, tmp_path: Path) -> None:
    config = CertificationConfig(run=certified.path, certifier=OnePass(votes=3), engine="torch", every=50)
    proven = population.read(certify_run_population(config, workers=1)).proven
    push(certified, ADDRESS)
    (file,) = population.files(pull(ADDRESS, tmp_path / "pulled"))
    assert population.read(file).proven == proven


def test_card_states_what_was_certified(hub: Hub, certified: Run) -> None:
    push(certified, ADDRESS)
    card = hub.repositories["owner/name"]["README.md"].decode()
    assert card.startswith("---\nlibrary_name: radii\n")
    assert "Gaussian noise of deviation 0.25 (pixels in [0, 1])" in card
    assert "certified at each radius (l2, pixels in [0, 1])" in card
    assert "| 0.25 |" in card
    assert "radii pull hf://owner/name --run runs/pulled" in card
    assert certified.weights_digest() in card


def test_push_removes_certificates_that_the_run_no_longer_has(hub: Hub, certified: Run) -> None:
    push(certified, ADDRESS, private=True)
    assert hub.private in ([True], ["private"])
    hub.repositories["owner/name"] |= {"certificates/old.tsv": b"old", "LICENSE": b"MIT"}
    push(certified, ADDRESS)
    files = hub.repositories["owner/name"]
    assert "certificates/old.tsv" not in files
    assert "LICENSE" in files
    assert sum(name.startswith("certificates/") for name in files) == 2


def test_pull_without_a_network_takes_the_cache(
    hub: Hub, certified: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(certified, ADDRESS)
    pull(ADDRESS, tmp_path / "first")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    asked = len(hub.requests)
    assert pull(ADDRESS, tmp_path / "second").weights_digest() == certified.weights_digest()
    assert len(hub.requests) == asked
    with pytest.raises(ParameterError, match=r"hf://owner/other cannot be pulled: .*Check the name and the network"):
        pull("hf://owner/other", tmp_path / "third")


def test_other_files_and_paths_are_left_out(hub: Hub, certified: Run, tmp_path: Path) -> None:
    push(certified, ADDRESS)
    hub.repositories["owner/name"] |= {
        "nets.py": b"open('canary', 'w')",
        "certificates/.hidden.tsv": b"x",
        "certificates/deep/a.tsv": b"x",
        "checkpoint.pt": b"x",
        "origin.json": b"{}",
    }
    run = pull(ADDRESS, tmp_path / "pulled")
    names = {path.relative_to(run.path).as_posix() for path in run.path.rglob("*") if path.is_file()}
    assert not names & {
        "nets.py",
        "checkpoint.pt",
        "origin.json",
        "certificates/.hidden.tsv",
        "certificates/deep/a.tsv",
    }


@pytest.mark.usefixtures("hub")
def test_link_out_of_the_cache_is_refused(certified: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push(certified, ADDRESS)
    pull(ADDRESS, tmp_path / "first")
    (snapshot,) = (tmp_path / "hub" / "models--owner--name" / "snapshots").iterdir()
    (tmp_path / "passwords").write_text("secret")
    (snapshot / "engine.json").unlink(missing_ok=True)
    (snapshot / "engine.json").symlink_to(tmp_path / "passwords")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        ValueError, match=r"engine\.json of hf://owner/name is a link to a file outside the hub's cache"
    ):
        pull(ADDRESS, tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_code_of_strangers_is_not_imported(
    hub: Hub, certified: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(certified, ADDRESS)
    files = hub.repositories["owner/name"]
    files["recipe.toml"] = files["recipe.toml"].replace(b'"digits_cnn"', b'"evil:net"')
    (tmp_path / "evil.py").write_text("open('canary', 'w').close()")
    monkeypatch.chdir(tmp_path)
    run = pull(ADDRESS, tmp_path / "pulled")
    assert named_code(run) == ["evil:net"]
    with pytest.raises(UntrustedError, match="names the code 'evil:net', which this user has not run before"):
        radii.load(run)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop("recipe.toml"), r"is not a run of radii: it has no recipe\.toml\. Check the address"),
        (lambda files: files.pop("model.safetensors"), r"is not a run of radii: it has no model\.safetensors"),
        (lambda files: files.update({"recipe.toml": b"sigma = "}), r"is damaged: .*Ask its owner to push it again"),
        (lambda files: files.update({"model.safetensors": b"x"}), "is damaged"),
        (lambda files: files.update({cut(files): b"idx\n"}), "is damaged"),
    ],
)
def test_damaged_runs_are_refused_and_leave_nothing(
    hub: Hub, certified: Run, tmp_path: Path, change: Callable[[dict[str, bytes]], None], message: str
) -> None:
    push(certified, ADDRESS)
    change(hub.repositories["owner/name"])
    with pytest.raises(ValueError, match=message) as raised:
        pull(ADDRESS, tmp_path / "pulled")
    assert str(tmp_path) not in str(raised.value)
    assert not [path for path in tmp_path.iterdir() if "pulled" in path.name]


def cut(files: dict[str, bytes]) -> str:
    return next(name for name in files if name.endswith(".tsv"))


@pytest.mark.usefixtures("hub")
def test_existing_directory_is_kept(certified: Run) -> None:
    push(certified, ADDRESS)
    with pytest.raises(ValueError, match="already exists"):
        pull(ADDRESS, certified.path)


@pytest.mark.parametrize(
    "text", ["owner/name", "hf://name", "hf://../name", "hf://owner/name/x", "hf://a/b@", "hf://a/b c"]
)
def test_wrong_addresses_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="is not an address of the hub. Write hf://owner/name"):
        Address.parse(text)


def test_address_may_name_a_revision() -> None:
    assert Address.parse("hf://owner/name@v1.0") == ("owner/name", "v1.0")
    with pytest.raises(ParameterError, match="names a revision. Push to hf://owner/name"):
        push("runs/none", "hf://owner/name@v1.0")


@pytest.mark.usefixtures("hub")
def test_refusal_of_the_hub_is_reported(certified: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hub, "answer", lambda *_: (403, {}, {"error": "You may not write here"}))
    with pytest.raises(ParameterError, match="cannot be pushed to hf://owner/name: .*log in with `hf auth login`"):
        push(certified, ADDRESS)


def test_absent_library_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        MissingExtraError, match=r"needs huggingface_hub, which is not installed\. Install it by: .*\[hf\]"
    ):
        pull(ADDRESS, tmp_path / "run")


@pytest.mark.usefixtures("hub")
def test_command_line_pushes_and_pulls(
    certified: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from radii import cli

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["radii", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        return capsys.readouterr().out

    monkeypatch.chdir(certified.path.parent)
    assert "pushed to hf://owner/name, http://127.0.0.1" in run("push", "mine", ADDRESS)
    said = run("pull", ADDRESS)
    assert f"runs{os.sep}name: pulled from hf://owner/name, with 1 certificate file" in said
    assert "next: radii verify runs/name" in said
    assert Run("runs/name").finished
