"""From tenant to tenant along the index of due runs, in a statement's words.

Each hop is one look into the index, however many runs a tenant has; the last one finds none.
"""

# A recursive `turn` of the tenants in their order, each once, after an empty first and before a
# null at the end.
HOPS = """
    turn (tenant) as (
        select ''
        union all
        select (select run.tenant from run
                where run.due_at is not null and run.tenant > turn.tenant
                order by run.tenant limit 1)
        from turn where turn.tenant is not null
    )"""
