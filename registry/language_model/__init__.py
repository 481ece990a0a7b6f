"""Language models at an endpoint: questions, and the JSON of their answers, kept on disk."""
