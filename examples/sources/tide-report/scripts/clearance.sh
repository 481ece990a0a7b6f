#!/bin/sh
# Says how much water a ship of the given draught has under her keel at each height read from standard input.
awk -F, -v draught="$1" '{ printf "%s,%.2f\n", $1, $2 - draught }'
