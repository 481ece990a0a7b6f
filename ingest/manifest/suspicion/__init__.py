"""Texts that look as if they were written for the model and against its user: rules as data, and what they find."""
