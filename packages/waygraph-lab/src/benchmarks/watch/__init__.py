"""Live ingest: how long servers take to be in the registry, how soon a change is, and what stays behind."""
