"""The laboratory of Waygraph: evaluation, training, data sets and data that is made up."""
