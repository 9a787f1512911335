"""Who gets in, in which order the checks come, and that every refusal is a problem."""


async def test_a_path_that_does_not_exist_is_a_problem_after_authentication(client, admin):
    unknown = await client.get("/api/nowhere")
    known = await admin.get("/api/nowhere")

    assert (unknown.status_code, unknown.json()["code"]) == (401, "unauthenticated")
    assert unknown.headers["www-authenticate"] == "Bearer"
    assert (known.status_code, known.json()["code"]) == (404, "route-not-found")
    assert known.headers["content-type"] == "application/problem+json"
    assert known.headers["cache-control"] == unknown.headers["cache-control"] == "no-store"
    assert known.json() == {
        "type": "urn:procession:problem:route-not-found",
        "title": "The route does not exist",
        "status": 404,
        "detail": None,
        "instance": "/api/nowhere",
        "code": "route-not-found",
    }


async def test_health_and_the_description_are_open(client):
    live = await client.get("/health/live")
    ready = await client.get("/health/ready")
    description = await client.get("/openapi.json")

    assert live.json() == {"status": "live"}
    assert ready.json() == {"status": "ready"}
    assert description.status_code == 200
