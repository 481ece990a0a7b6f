"""A registry that a service keeps, asked over HTTP: `Registry.open("https://host")`, or awaitable."""
