"""What a person names becomes documents and servers, and each document a Manifest."""
