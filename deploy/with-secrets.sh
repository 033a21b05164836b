#!/bin/sh
# Run a program with the secrets that it knows only as variables, such as ANTHROPIC_API_KEY: each file in
# /run/secrets/env is one, and has the variable's name. So neither the image nor `docker inspect` shows them.
set -eu
for file in /run/secrets/env/*; do
    [ -s "$file" ] || continue
    value=$(cat "$file")
    export "${file##*/}=$value"
done
exec "$@"
