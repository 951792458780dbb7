"""The store: PostgreSQL, where everything is kept that outlives a workflow's history.

`connection` opens it and migrates it, `writing` is what activities do with it, `reading` is what clients read of it.
"""
