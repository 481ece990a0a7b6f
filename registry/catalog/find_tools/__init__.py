"""What a language model is told of the tools that are there: found ones in few words, counts, names that are near."""
