"""The index on a Neo4j server: its own vector and full-text indexes."""
