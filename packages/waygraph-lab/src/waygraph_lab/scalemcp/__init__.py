"""ScaleMCP's benchmark, made anew: five financial tools for each of 1,000 companies, and queries over them.

Lumer et al., "ScaleMCP" (2025), section 4. The companies come from the user's own list, the tools from the paper's
templates (Table A9). Base queries and synthetic questions are this project's own, and no question is a query.
"""
