"""The nouns as JSON and back, and errors as problem details: what services and the command line print and read."""
