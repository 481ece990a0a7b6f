"""Who may see and do what: visibility, policy, keys, tokens and limits of calls. Knows no web framework."""
