"""HTTP as this product uses it: bounded clients, addresses, repeats, problem details."""
