"""Statements that want more time or memory than there is: `tests.attacks` are over at once, these are not."""

ENDLESS = f"MATCH {', '.join(f'(n{i})' for i in range(16))} RETURN count(*)"
"""The nodes' number to the 16th rows, in little memory."""

OF_MEMORY = (
    "UNWIND range(0, 1000000000) AS x RETURN collect(x)",
    "RETURN range(0, 1000000000000000000)",
    "RETURN reduce(s = 'x', i IN range(1, 40) | s + s)",
    "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN a, b",
    "UNWIND range(1, 3000000) AS a RETURN a, [x IN range(1, 20) | 'text']",
    "MATCH (a), (b), (c), (d), (e), (f), (g), (h), (i) RETURN a, b, c, d, e, f, g, h, i",
)
"""In a file of seven nodes as in a large one."""

ON_A_SERVER = {
    "rows": "UNWIND range(1, 1000000000000) AS x RETURN count(x)",
    "a product": "MATCH (a), (b), (c), (d), (e) WHERE a.id < b.id + c.id + d.id + e.id RETURN count(*)",
    "a plan": "MATCH " + "-->".join(f"(a{number})" for number in range(400)) + " RETURN 1",
    "brackets": "RETURN " + "(" * 9_000 + "1" + ")" * 9_000,
    "a list of rows": "UNWIND range(1, 1000000000) AS x RETURN collect([x, 'text'])",
    "a text": "RETURN size(reduce(s = 'x', i IN range(1, 40) | s + s))",
    "one row": "WITH 20000000 AS n RETURN range(1, n)",
    "many rows": "MATCH (a), (b) RETURN collect([a, b]) AS x, collect([b, a]) AS y, [i IN range(1, 999999) | a.id]",
}
