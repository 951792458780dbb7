"""KEEP: PostgreSQL, where everything is kept that outlives a workflow's history.

`connection` opens it, `schema` migrates it. `write` is what activities do with it, `read` what clients read of it.
"""
