"""One module for each command or small family of commands."""
