"""The foundation: nouns, errors, identities, settings, validation, files. Imports nothing of the rooms above it."""
