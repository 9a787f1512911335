async def test_a_migrated_database_has_the_default_tenant(conn):
    cursor = await conn.execute("select slug from tenant")

    assert await cursor.fetchall() == [("default",)]
