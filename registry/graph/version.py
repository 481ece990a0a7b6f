"""The newest schema that this Waygraph knows. Apart from the migrations, since readers of an index need no more."""

SCHEMA_VERSION = 2
