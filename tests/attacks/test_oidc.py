"""Tokens of an identity provider: what is forged, old, for somebody else or incomplete is 401."""

import base64
import hashlib
import hmac
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

import headgate as hg
from headgate.errors import ConfigError
from headgate.service.access import Access, OidcConfig
from headgate.service.http.background import listening

jwt = pytest.importorskip("jwt")
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: E402

ISSUER, AUDIENCE = "https://id.example", "headgate"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def jwk(key, kid, **more):
    algorithm = (
        jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    )
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", **more}


class Provider:
    """An identity provider on loopback: it serves keys, and counts who asks."""

    def __init__(self) -> None:
        self.keys = [jwk(RSA, "r1"), jwk(EC, "e1")]
        self.asked, self.status = 0, 200
        self.wait = threading.Event()
        self.wait.set()

    @contextmanager
    def serving(self):
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                provider.wait.wait(20)
                body = json.dumps({"keys": provider.keys}).encode()
                self.send_response(provider.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/keys"
            finally:
                server.shutdown()
                thread.join()


@contextmanager
def reached(local, **options):
    """The service with an identity provider; gives its URL and the provider."""
    provider = Provider()
    with provider.serving() as jwks:
        config = OidcConfig(
            ISSUER, AUDIENCE, **{"jwks": jwks, "tenant_claim": "tenant", "leeway_s": 1.0, **options}
        )
        with listening(local.service, access=Access(oidc=config)) as url:
            yield url, provider


def claims(**changes):
    body = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "u1",
        "tenant": "ann",
        "exp": int(time.time()) + 600,
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


def signed(key=RSA, kid: str | None = "r1", algorithm="RS256", **changes):
    return jwt.encode(claims(**changes), key, algorithm, headers={"kid": kid} if kid else {})


def part(body) -> str:
    return base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")


def confused() -> str:
    """HS256 with the public key as the secret, which is public."""
    pem = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = f"{part({'alg': 'HS256', 'kid': 'r1', 'typ': 'JWT'})}.{part(claims())}"
    mac = hmac.new(pem, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def tampered() -> str:
    head, _, mark = signed().split(".")
    return f"{head}.{part(claims(tenant='root', role='admin'))}.{mark}"


now = int(time.time())
FORGED = {
    "alg none": f"{part({'alg': 'none', 'kid': 'r1'})}.{part(claims())}.",
    "alg None with a signature": f"{part({'alg': 'None', 'kid': 'r1'})}.{part(claims())}.AAAA",
    "public key as a secret": confused(),
    "another key": signed(OTHER_RSA),
    "a key that is not known": signed(OTHER_RSA, kid="r9"),
    "no key named, and there are two": signed(kid=None),
    "the key of another kind": signed(RSA, kid="e1"),
    "an algorithm that is not chosen": signed(algorithm="RS512"),
    "changed claims": tampered(),
    "another issuer": signed(iss="https://evil.example"),
    "another audience": signed(aud="other"),
    "expired": signed(exp=now - 60),
    "not yet valid": signed(nbf=now + 600),
    "made in the future": signed(iat=now + 600),
    "no expiry": signed(exp=None),
    "no issuer": signed(iss=None),
    "no audience": signed(aud=None),
    "no tenant": signed(tenant=None),
    "a tenant that is a list": signed(tenant=["ann"]),
    "a tenant that is not known": signed(tenant="nobody"),
    "the operator": signed(tenant="operator"),
    "an endless expiry": signed(exp=float("inf")),
    "an expiry that is text": signed(exp="soon"),
    "a key in its header": jwt.encode(
        claims(), OTHER_RSA, "RS256", headers={"jwk": jwk(OTHER_RSA, "r9"), "jku": "http://127.0.0.1:1/"}
    ),
    "a name of a key that is none": jwt.encode(claims(), RSA, "RS256", headers={"kid": "../../etc/passwd"}),
    "two dots": "..",
    "no JSON": "a.b.c",
    "brackets": f"{base64.urlsafe_b64encode(b'[' * 9000).decode()}.b.c",
    "too long": f"{signed()}{'A' * 20_000}",
}


def test_whatever_is_wrong_with_a_token_is_401(local) -> None:
    with reached(local) as (url, provider), httpx.Client(base_url=url) as http:
        for name, text in FORGED.items():
            answer = http.get("/queries", headers={"Authorization": f"Bearer {text}"})
            assert (name, answer.status_code) == (name, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert text[-20:] not in answer.text or len(text) < 20
        good = {"Authorization": f"Bearer {signed()}"}
        assert http.get("/queries", headers=good).status_code == 200
        assert provider.asked == 1, "names of keys that strangers invent are not asked for each time"
        ours = {"Authorization": f"Bearer {local.token}"}
        assert http.get("/queries", headers=ours).status_code == 200


def test_a_token_without_the_section_is_no_token(served) -> None:
    with hg.service.Client(served.url, signed()) as client, pytest.raises(hg.errors.BadToken):
        client.queries()


def test_claims_name_tenant_and_role(local) -> None:
    local.service.add_tenant("root", admin=True)
    with reached(local, role_claim="realm.roles") as (url, _):

        def me(**changes):
            with hg.service.Client(url, signed(EC, "e1", "ES256", **changes)) as client:
                return client.me()

        assert me(realm={"roles": ["x", "reader"]}) == {"tenant": "ann", "role": "reader", "token": "jwt:u1"}
        assert me(realm={"roles": "writer"})["role"] == "writer"
        assert me(realm={"roles": ["admin"]})["role"] == "writer", "never above the tenant's"
        assert me(tenant="root", realm={"roles": ["admin"]})["role"] == "admin"
        wrongs: list[object] = [
            {"roles": ["king"]},
            {"roles": []},
            {},
            None,
            "admin",
            {"roles": {"admin": 1}},
        ]
        for wrong in wrongs:
            with pytest.raises(hg.errors.BadToken, match="names none of the roles"):
                me(realm=wrong)
        local.service.accounts.disable(hg_admin(local), "ann")
        with pytest.raises(hg.errors.AccessDenied, match="disabled"):
            me(realm={"roles": "writer"})


def hg_admin(local):
    return local.service.tenants.acting("root", "admin", "")


@pytest.mark.parametrize("create", [False, True])
def test_a_tenant_is_made_only_by_policy(local, create) -> None:
    with reached(local, create=create) as (url, _):
        with hg.service.Client(url, signed(tenant="carl")) as carl:
            if not create:
                with pytest.raises(hg.errors.BadToken, match="no tenant 'carl'"):
                    carl.me()
                return
            assert carl.me()["role"] == "writer"
            assert carl.tokens("carl") == []
            carl.add_source("of_carl", {"y": "double"})
            assert local.service.audit.read("carl")[0]["token"] == "jwt:u1"
        for name in ("operator", "No Name", "x" * 80, "../x"):
            with hg.service.Client(url, signed(tenant=name)) as wrong, pytest.raises(hg.errors.BadToken):
                wrong.me()
        assert {one.name for one in local.service.tenants.listed()} == {"ann", "carl"}


def test_new_keys_are_learned_and_old_ones_kept_while_the_provider_is_away(local) -> None:
    with reached(local, refresh_s=0.01) as (url, provider):

        def status(text: str) -> int:
            time.sleep(0.02)
            return httpx.get(f"{url}/me", headers={"Authorization": f"Bearer {text}"}, timeout=30).status_code

        new = signed(OTHER_RSA, "r2")
        assert [status(signed()), status(new)] == [200, 401]
        provider.status = 500
        assert [status(new), status(signed())] == [401, 200]
        provider.status, provider.keys = 200, [jwk(OTHER_RSA, "r2")]
        assert [status(new), status(signed())] == [200, 401], "a key that was withdrawn is no longer accepted"
        provider.wait.clear()  # the provider hangs
        try:
            assert status(new) == 200
            assert httpx.get(f"{url}/health", timeout=30).is_success
        finally:
            provider.wait.set()


def test_keys_from_a_file(local, tmp_path) -> None:
    keys = tmp_path / "keys.json"
    with pytest.raises(ConfigError, match="cannot be read"), reached(local, jwks=str(keys)):
        pass
    keys.write_text(json.dumps({"keys": [jwk(RSA, "r1"), jwk(EC, "e1", use="enc")]}))
    with reached(local, jwks=str(keys)) as (url, _):
        for text, status in ((signed(), 200), (signed(kid=None), 200), (signed(EC, "e1", "ES256"), 401)):
            answer = httpx.get(f"{url}/me", headers={"Authorization": f"Bearer {text}"})
            assert answer.status_code == status
