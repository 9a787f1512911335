import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook

from procession.outbound.signing import BadSecretError, keys_of, signature

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
ID = "6d1f0c5e-3b7a-5c2d-9e41-0a1b2c3d4e5f"
BODY = (
    b'{"event":"Published","tenant":"default","entryId":"a-17","contentType":"Article",'
    b'"status":"Published","data":{"Title":"Hello"},"createdAt":"2026-11-30T08:00:00Z",'
    b'"updatedAt":"2026-11-30T08:05:00Z"}'
)


def secret_of(length):
    return "whsec_" + base64.b64encode(bytes(range(length))).decode()


def test_the_published_vector_holds():
    assert len(BODY) == 197
    assert (
        signature(keys_of(SECRET), ID, 1764547200, BODY)
        == "v1,Zqx86THgEoAV0LM8UeLVyb3IFWf1GEsObU3m012Z+/w="
    )


def test_an_independent_judge_agrees():
    now = datetime.now(UTC)
    signed = signature(keys_of(SECRET), ID, int(now.timestamp()), BODY)

    assert signed == Webhook(SECRET).sign(ID, now, BODY.decode())


def test_each_secret_signs_while_one_is_exchanged():
    secrets = [secret_of(24), secret_of(64), SECRET]

    signed = signature(keys_of(" ".join(secrets)), ID, 1, BODY).split(" ")

    assert signed == [signature(keys_of(one), ID, 1, BODY) for one in secrets]


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "whsec_",
        secret_of(23),
        secret_of(65),
        SECRET[:-1],
        SECRET + "=",
        SECRET.replace("A", "-"),
        SECRET + "\n",
        f"{SECRET}  {SECRET}",
        f" {SECRET}",
        f"{SECRET},{SECRET}",
        " ".join([SECRET] * 4),
    ],
)
def test_what_is_no_secret_is_refused(secret):
    with pytest.raises(BadSecretError):
        keys_of(secret)
