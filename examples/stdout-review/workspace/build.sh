#!/bin/sh
# Puts the months together.
set -eu
mkdir -p dist
cat months/*.txt > dist/almanac.txt
echo "build: dist/almanac.txt, $(wc -l < dist/almanac.txt) lines, 0 errors"
