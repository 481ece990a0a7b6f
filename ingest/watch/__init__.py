"""Sources and servers followed as they change."""
