"""Synthetic questions: what people might ask that a tool can answer, made from what the tool says of itself."""

from waygraph.ingest.questions.author import TEMPLATES, QuestionAuthor, open_author, with_questions

__all__ = ["TEMPLATES", "QuestionAuthor", "open_author", "with_questions"]
