"""What is learned of tools: near ones, and an embedder from requests whose right tools are known."""
