"""An embedder and a ranker, trained on requests whose right tools are known, and judged on data sets."""
