"""The Host header: names that a web page can let point to this machine are refused, clients that belong are not."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from radii.serving.guard import AllowedHosts
from radii.serving.model import ModelConfig
from radii.serving.routes import Api
from radii.serving.server import ServerConfig
from tests.serving.conftest import MakeModel, MakeService, client_of

TOKEN = "a-token-of-sixteen-characters"
LOOPBACK = ("localhost", "LOCALHOST.", "app.localhost", "127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]")
FOREIGN = ("evil.example", "evil.example.", "localhost.evil.example", "127.0.0.1.nip.io", "127.1", "0x7f000001")
DAMAGED = (
    "",
    "[::1",
    "::1",
    "a b",
    "evil.example@127.0.0.1",
    "127.0.0.1:x",
    "127.0.0.1:80:80",
    "é",
    "http://localhost",
)


@pytest.fixture
def open_api(make_service: MakeService, make_model: MakeModel) -> Api:
    return Api(make_service(make_model("vote")))


@pytest.mark.parametrize("port", ["", ":8000"])
@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_names_and_addresses_are_answered(host: str, port: str) -> None:
    for bound in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.5"):
        assert AllowedHosts(bound).allow(host + port, protected=False)


@pytest.mark.parametrize("host", [*FOREIGN, *DAMAGED])
@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "10.0.0.5"])
def test_foreign_and_damaged_names_are_refused_by_an_open_server(bound: str, host: str) -> None:
    assert not AllowedHosts(bound).allow(host, protected=False)
    assert not AllowedHosts(bound).allow(f"{host}:8000", protected=False)


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "localhost"])
@pytest.mark.parametrize("host", ["evil.example", "10.0.0.5"])
def test_server_on_loopback_answers_loopback_alone_even_with_tokens(bound: str, host: str) -> None:
    assert not AllowedHosts(bound).allow(host, protected=True)


@pytest.mark.parametrize("host", ["10.0.0.5", "10.0.0.5:8000", "[2001:db8::7]:8000", "192.0.2.1"])
def test_server_in_a_network_answers_addresses_which_no_page_can_rebind(host: str) -> None:
    for bound in ("0.0.0.0", "::", "10.0.0.5"):
        assert AllowedHosts(bound).allow(host, protected=False)


def test_name_that_the_server_is_bound_to_is_answered() -> None:
    assert AllowedHosts("Models.Example.org").allow("models.example.org:8000", protected=False)


def test_container_with_tokens_answers_any_name() -> None:
    """The other containers call it by the name of its service, which it does not know."""
    for bound in ("0.0.0.0", "::"):
        assert AllowedHosts(bound).allow("radii-server:8000", protected=True)
        assert not AllowedHosts(bound).allow("radii-server:8000", protected=False)


def test_stated_names_are_answered_and_no_others() -> None:
    for bound in ("127.0.0.1", "0.0.0.0"):
        hosts = AllowedHosts(bound, ("models.example.org",))
        for protected in (True, False):
            assert hosts.allow("Models.Example.org.", protected=protected)
            assert hosts.allow("models.example.org:443", protected=protected)
            assert not hosts.allow("example.org", protected=protected)
            assert not hosts.allow("x.models.example.org", protected=protected)


@pytest.mark.parametrize("name", ["", "https://models.example.org", "models.example.org:443", "*.example.org", "a b"])
def test_stated_names_without_a_name_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a name such as models.example.org"):
        ServerConfig(model=ModelConfig(run=tmp_path), host_names=(name,))


def test_page_of_a_rebound_name_gets_nothing(open_api: Api) -> None:
    with client_of(open_api) as client:
        for path in ("/", "/v2", "/metrics", "/v2/health/live", "/nothing"):
            refused = client.get(path, headers={"host": "evil.example:8000"})
            assert refused.status_code == 421
            assert "evil.example" in refused.json()["error"]
            assert "--host-name" in refused.json()["error"]
        assert client.post("/predict", content=b"x", headers={"host": "evil.example"}).status_code == 421
        assert client.get("/").status_code == client.get("/v2").status_code == 200


def test_all_of_several_host_headers_are_checked(open_api: Api) -> None:
    with client_of(open_api) as client:
        headers = [("host", "evil.example"), ("host", "127.0.0.1")]
        assert client.get("/", headers=headers).status_code == 421
        assert client.get("/", headers=headers[::-1]).status_code == 421


def test_probe_without_a_host_is_answered(open_api: Api) -> None:
    """Old health checks speak HTTP/1.0 without the header; browsers always send it."""
    statuses: list[int] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    scope = {"type": "http", "method": "GET", "path": "/v2/health/live", "headers": [], "query_string": b""}
    asyncio.run(open_api.app()(scope, receive, send))
    assert statuses == [200, 0]


def test_health_checks_by_any_name_work_in_a_network(make_service: MakeService, make_model: MakeModel) -> None:
    api = Api(make_service(make_model("vote")), hosts=AllowedHosts("0.0.0.0"))
    with client_of(api, "http://radii.default.svc") as client:
        assert client.get("/v2/health/live").status_code == client.get("/v2/health/ready").status_code == 200
        assert client.get("/v2").status_code == 421


def test_token_is_needed_whatever_the_name(make_service: MakeService, make_model: MakeModel) -> None:
    api = Api(make_service(make_model("vote")), [TOKEN], AllowedHosts("0.0.0.0"))
    with client_of(api, "http://radii-server:8000") as client:
        assert client.get("/v2").status_code == 401
        assert client.get("/v2", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
