"""TLS, proxies and rates: what the wire and the addresses on it can be made to say."""

import socket
import ssl
import warnings
from urllib.parse import urlsplit

import httpx
import pytest
from tests.attacks.certificates import certificate
from typer.testing import CliRunner

import headgate as hg
from headgate.cli import app
from headgate.errors import ConfigError, HeadgateError, QuotaExceeded
from headgate.service.access import Access
from headgate.service.config import ServiceConfig
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.background import listening
from headgate.service.rates import Buckets, network_of


def presented(url: str, **options) -> bytes:
    """The certificate that a service shows to a new connection."""
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # for old versions of TLS
        for name, value in options.items():
            setattr(context, name, value)
    with (
        socket.create_connection((parts.hostname, parts.port), timeout=20) as plain,
        context.wrap_socket(plain) as connection,
    ):
        return connection.getpeercert(binary_form=True) or b""


def test_tls_with_a_certificate_that_changes(local, tmp_path, monkeypatch) -> None:
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    live = tmp_path / "live.pem", tmp_path / "live.key"
    for path, other in zip(live, first, strict=True):
        path.write_bytes(other.read_bytes())
    access = Access(str(live[0]), str(live[1]))
    with listening(local.service, access=access, limits=EdgeLimits(header_s=1)) as url:
        assert url.startswith("https://")
        with hg.service.Client(url, local.token, cacert=str(first[0])) as client:
            assert client.me()["tenant"] == "ann"
            secured = client._http.get(f"{url}/queries").headers["strict-transport-security"]
            assert secured.startswith("max-age=")
            before = presented(url)
            live[0].write_bytes(second[0].read_bytes())  # the key is still that of the first
            assert presented(url) == before, "a pair that does not fit is not used"
            live[1].write_bytes(second[1].read_bytes())
            after = presented(url)
            assert after != before
            assert client.me()["tenant"] == "ann", "open connections go on"
        with (
            hg.service.Client(url, local.token) as stranger,
            pytest.raises(HeadgateError, match="certificate"),
        ):
            stranger.me()
        monkeypatch.setenv("HEADGATE_URL", url)
        monkeypatch.setenv("HEADGATE_TOKEN", local.token)
        shown = CliRunner().invoke(app, ["source", "list", "--cacert", str(second[0])])
        assert (shown.exit_code, "alpha" in shown.output) == (0, True)
        monkeypatch.setenv("HEADGATE_CACERT", str(second[0]))
        assert CliRunner().invoke(app, ["query", "list"]).exit_code == 0
        with pytest.raises((ssl.SSLError, ConnectionError)):
            presented(url, maximum_version=ssl.TLSVersion.TLSv1_1)
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as silent:
            silent.sendall(b"\x16\x03\x01")  # the beginning of a handshake, and no more
            assert silent.recv(100) == b"", "a handshake that does not end is given up"
    with listening(local.service) as url:
        assert "strict-transport-security" not in httpx.get(f"{url}/health").headers


def test_addresses_are_those_that_a_trusted_proxy_names(local) -> None:
    forged = {
        "Authorization": f"Bearer {local.token}",
        "X-Forwarded-For": "9.9.9.9",
        "X-Forwarded-Proto": "https",
    }
    declared = {"name": "delta", "columns": {"y": "double"}}
    with listening(local.service) as url:
        answer = httpx.post(f"{url}/sources", headers=forged, json=declared)
        assert "strict-transport-security" not in answer.headers
    access = Access(proxies=("127.0.0.0/8", "10.0.0.1"))
    with listening(local.service, access=access) as url:
        chain = {**forged, "X-Forwarded-For": "6.6.6.6, 9.9.9.9, 10.0.0.1"}
        answer = httpx.post(f"{url}/sources", headers=chain, json={**declared, "name": "epsilon"})
        assert "strict-transport-security" in answer.headers
    addresses = {one["object"]: one["address"] for one in local.service.audit.read()}
    assert addresses == {"source delta": "127.0.0.1", "source epsilon": "9.9.9.9"}


def test_strangers_are_limited_by_address_and_tenants_go_on(local) -> None:
    limits = EdgeLimits(strangers_s=1e-3, strangers_burst=5)
    access = Access(proxies=("127.0.0.1",))
    with listening(local.service, limits=limits, access=access) as url, httpx.Client(base_url=url) as http:

        def status(path: str, address: str, token: str = "guess") -> int:
            headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": address}
            answer = http.get(path, headers=headers)
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) > 1
                assert "too often" in answer.json()["message"]
            return answer.status_code

        assert [status("/queries", "1.1.1.1") for _ in range(7)] == [401] * 5 + [429] * 2
        assert [status(path, "1.1.1.1") for path in ("/ready", "/docs", "/metrics")] == [429] * 3
        assert [status(path, "1.1.1.1") for path in ["/health"] * 20] == [200] * 20
        assert status("/queries", "1.1.1.1", local.token) == 200
        assert status("/queries", "2.2.2.2") == 401
        six = [status("/queries", f"2001:db8::{number}") for number in range(7)]
        assert six == [401] * 5 + [429] * 2, "a customer has a whole network of addresses"


def test_a_tenant_is_limited_and_its_neighbours_are_not(local) -> None:
    bob = local.service.add_tenant("bob")
    other = local.service.accounts.create_token(local.ann, "ann")[1]
    with listening(local.service, limits=EdgeLimits(requests_s=1e-3, requests_burst=5)) as url:
        with hg.service.Client(url, local.token) as ann:
            for _ in range(5):
                ann.me()
            with pytest.raises(QuotaExceeded, match="tenant 'ann' asks too often: try again in"):
                ann.me()
        with hg.service.Client(url, other) as ann, pytest.raises(QuotaExceeded):
            ann.me()  # another token is the same tenant
        with hg.service.Client(url, bob) as neighbour:
            assert neighbour.me()["tenant"] == "bob"


def test_buckets_fill_at_their_rate_and_are_bounded() -> None:
    now = [0.0]
    buckets = Buckets(2.0, 3, most=10, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    now[0] += 0.5
    assert [buckets.take("a") for _ in range(2)] == [0, 0.5]
    now[0] += 1e9
    assert [bool(buckets.take("a")) for _ in range(4)] == [False] * 3 + [True]
    for number in range(1000):
        buckets.take(str(number))
    assert len(buckets) == 10
    assert network_of("::ffff:1.2.3.4") == network_of("1.2.3.4") == "1.2.3.4"
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:0:1::1")
    assert len(network_of("x" * 10_000)) == 64


def test_no_other_site_may_ask(served) -> None:
    """CORS is off: no answer carries a header that lets a page of another site read it."""
    headers = {"Origin": "https://evil.example", "Authorization": f"Bearer {served.token}"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    with httpx.Client(base_url=served.url, headers=headers) as http:
        for method, path in (("OPTIONS", "/queries"), ("GET", "/queries"), ("GET", "/ready"), ("GET", "/")):
            answer = http.request(method, path, headers=asked)
            assert not [name for name in answer.headers if name.startswith("access-control")]
        assert http.options("/queries").headers["allow"] == "GET, POST"


def test_what_is_public_names_no_tenant(served) -> None:
    served.service.running = True
    served.service.failures = {"": "query of ann: SELECT x FROM alpha", "orders": "broker of ann"}
    with httpx.Client(base_url=served.url) as http:
        for path in ("/ready", "/metrics", "/health"):
            assert not {"ann", "alpha", "orders"} & set(http.get(path).text.replace('"', " ").split())
        assert http.get("/ready").json()["why"] == "batches have stopped; 1 stream has stopped"
        assert http.get("/ready", headers={"Authorization": "Bearer no"}).status_code == 503
        status = http.get("/status", headers={"Authorization": f"Bearer {served.token}"}).json()
        assert status["failure"] == "batches have stopped; 1 stream has stopped"
        admin = {"Authorization": f"Bearer {served.service.add_tenant('root', admin=True)}"}
        assert "SELECT x" in http.get("/ready", headers=admin).json()["why"]
    served.service.failures = {}
    with listening(served.service, access=Access(metrics_token=True)) as url:
        assert httpx.get(f"{url}/metrics").status_code == 401
        assert httpx.get(f"{url}/metrics", headers=admin).status_code == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[http]\ncertificate = 'nowhere.pem'", "belong together"),
        ("[http]\ncertificate = 'nowhere.pem'\nkey = 'nowhere.key'", "not a file"),
        ("[http]\nproxies = ['10.0.0.1/8']", "no address"),
        ("[http]\nprixies = ['10.0.0.1']", "'prixies'"),
        ("[http]\nrequests_s = 0", "above 0"),
        ("[oidc]\nissuer = 'x'", "needs audience"),
        ("[oidc]\nissuer = 'x'\naudience = 'y'\njwks = 'http://example.com/keys'", "https"),
        ("[oidc]\nissuer = 'x'\naudience = 'y'\njwks = 'f'\nalgorithms = ['HS256']", "HS256"),
        ("[oidc]\nissuer = 'x'\naudience = 'y'\njwks = 'f'\nalgorithms = ['none']", "none"),
        ("[oidc]\nissuer = 'x'\naudience = 'y'\njwks = 'f'\nsecret = 'z'", "'secret'"),
        ("[oidc]\nissuer = 'x'\naudience = 'y'\njwks = 'f'\nrole = 'king'", "'king'"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path, text, message) -> None:
    path = tmp_path / "service.toml"
    path.write_text(text)
    options = ServiceConfig(tmp_path, "127.0.0.1", 0, 4, "local[2]", "", demo=True)
    with pytest.raises(ConfigError, match=message):
        options.with_file(path)


def test_a_certificate_that_cannot_be_used_is_named(local, tmp_path) -> None:
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    with (
        pytest.raises(ConfigError, match="cannot be used"),
        listening(local.service, access=Access(str(first[0]), str(second[1]))),
    ):
        pass
