"""Logins at servers: the operator's and each caller's own, where they are kept, and how they are made."""
