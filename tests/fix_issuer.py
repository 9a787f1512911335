"""An identity provider on 127.0.0.1 that proves to be login.example.com, and signs tokens."""

import json
import ssl
import time
from dataclasses import dataclass, field

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fix_receiver import Answer, Receiver, answer, answers
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from procession.outbound.oidc import Issuer, Provider

HOST = "login.example.com"
AUDIENCE = "procession"
METADATA, KEYS = "/.well-known/openid-configuration", "/keys"


@dataclass(frozen=True)
class Signer:
    """A key of its own, and the algorithm that it signs by."""

    id: str | None
    private: object
    algorithm: str

    def jwk(self, **changes):
        """As it is published."""
        kind = RSAAlgorithm if self.algorithm[0] in "RP" else ECAlgorithm
        public = kind.to_jwk(self.private.public_key(), as_dict=True)
        named = {"kid": self.id} if self.id else {}
        return {**public, "use": "sig", **named, **changes}


def rsa_signer(key_id="one", algorithm="RS256", bits=2048):
    return Signer(key_id, rsa.generate_private_key(65537, bits), algorithm)


def ec_signer(key_id="two", algorithm="ES256"):
    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    return Signer(key_id, ec.generate_private_key(curves[algorithm]), algorithm)


@dataclass
class Site(Receiver):
    """Answers by path; what a test has scripted comes first."""

    pages: dict[str, Answer] = field(default_factory=dict)

    def _note(self, received):
        super()._note(received)
        if not self.script:
            self.script.append(self.pages.get(received.path, answer(404)))


@dataclass
class IdentityProvider:
    """The site, its keys, and the clock of whoever asks it."""

    site: Site
    issuer: str
    keys: list[Signer]
    now: float = 1_000.0

    def publish(self, *keys, metadata=None, document=None):
        """Put the keys where the metadata says."""
        listed = {"keys": [one.jwk() if isinstance(one, Signer) else one for one in keys]}
        said = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}{KEYS}"}
        self.site.pages[METADATA] = page(said if metadata is None else metadata)
        self.site.pages[KEYS] = page(listed if document is None else document)

    def token(self, signer=None, /, headers=None, **claims):
        """One that is good, but for what is said here. None takes a claim away."""
        signer = signer or self.keys[0]
        now = int(time.time())
        said = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "u-7",
            "exp": now + 300,
            "tenant": "default",
            "roles": ["Editor"],
            "name": "Zoë",
            "email": "zoe@example.org",
        } | claims
        said = {name: value for name, value in said.items() if value is not None}
        named = ({"kid": signer.id} if signer.id else {}) | (headers or {})
        text = json.dumps(said).encode()  # whatever it says, as jwt.encode would not have it
        return jwt.PyJWS().encode(text, signer.private, signer.algorithm, headers=named)

    @property
    def fetches(self):
        """How often its keys were asked for."""
        return sum(one.path == KEYS for one in self.site.received)

    def clock(self):
        return self.now


def page(value) -> Answer:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return answer(200, body, [("Content-Type", "application/json")])


@pytest.fixture(scope="session")
def signers():
    """Keys take a while to make."""
    return [rsa_signer(), ec_signer()]


@pytest.fixture
async def provider(authority, signers):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    site = await Site().start(context)
    one = IdentityProvider(site, f"https://{HOST}:{site.port}", list(signers))
    one.publish(*signers)
    yield one
    await site.stop()


@pytest.fixture
async def make_issuer(provider, make_client):
    """Whoever takes its tokens; closed at the end."""
    made = []

    def make(issuer=None, **seams):
        client = make_client(**{"resolve": answers(login_example_com=["127.0.0.1"]), **seams})
        made.append(Issuer(client, Provider(issuer or provider.issuer, AUDIENCE), provider.clock))
        return made[-1]

    yield make
    for one in made:
        await one.__aexit__(None, None, None)


@pytest.fixture
def issuer(make_issuer):
    return make_issuer()
