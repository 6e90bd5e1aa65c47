#!/usr/bin/env bash
# A search by successive halving: eight configurations as PyTorch jobs of one group on two made-up
# GPUs. The search and the scheduler are killed in its middle, and it finds the winner of a search
# that nobody ever interrupted.
#
#     examples/live/search/run.sh [POLICY]     las (the default), tiresias, srtf
#
# Needs `shunter` and PyTorch: those of this repository after `make live`, or in the PATH.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../functions.sh"
searching=
trap 'for one in $searching $daemon; do kill -9 "$one" 2>/dev/null || true; done' EXIT

lines() { find . -path '*/jobs/*/stdout.0' -exec cat {} + 2>/dev/null | wc -l; }

has_reported() { [ "$(lines)" -ge "$1" ]; } # has_reported LINES

needs_pytorch
enter "$here" "${1:-las}"

say "A scheduler, and a search of eight configurations"
serve
python -u "$here/search.py" halving >>search.out 2>>search.err &
searching=$!
until_true 300 "nothing was reported" has_reported 20
shunter group show halving

say "Both are killed, and come back"
strike
kill -9 "$searching" 2>/dev/null && wait "$searching" 2>/dev/null || true
serve
python -u "$here/search.py" halving >>search.out 2>>search.err &
searching=$!
until_true 300 "it does not go on" has_reported 40

say "The scheduler is killed once more, and the search waits for it"
strike
sleep 2
serve
wait "$searching" || fail "the search failed: $(tail -1 search.err)"
searching=
cat search.out
until_true 180 "some jobs do not end" all_ended
shunter group show halving
shunter why "$(shunter group show halving --json | python -c \
    'import json, sys; print(json.load(sys.stdin)["groups"][0]["members"][0]["id"])')"

say "The same search without a scheduler"
python "$here/search.py" --alone | tee alone.out
[ "$(tail -1 search.out)" = "$(cat alone.out)" ] || fail "it found another winner"

say "The log decides every round once more"
finish
shunter replay --verify log.db
leave
