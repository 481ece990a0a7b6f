"""Staying in step: sources followed as they change."""
