"""The REST service under load: beside a bare endpoint, while it syncs, and for many minutes of everything at once."""
