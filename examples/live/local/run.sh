#!/usr/bin/env bash
# Eight PyTorch jobs on a node of four made-up GPUs: some are preempted and resumed, the scheduler is
# killed and started again, and every loss is that of a run which nobody ever interrupted.
#
#     examples/live/local/run.sh [POLICY]      tiresias (the default), las, srtf, fifo, gavel
#
# Needs `shunter` and PyTorch: those of this repository after `make live`, or in the PATH.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../../.." && pwd)
[ -x "$repository/.venv/bin/shunter" ] && PATH="$repository/.venv/bin:$PATH"
export SHUNTER_POLICY__NAME=${1:-tiresias}
work=$(mktemp -d "${TMPDIR:-/tmp}/shunter-example.XXXXXX")
export SHUNTER_URL="unix:$work/shunter.sock" SHUNTER_SERVER__LISTEN="unix:$work/shunter.sock"
cp "$here/cluster.toml" "$work"
cd "$work"
daemon=

say() { printf '\n== %s\n' "$*"; }

fail() {
    echo "failed: $*; see $work" >&2
    exit 1
}

serve() {
    shunter serve cluster.toml 2>>daemon.err &
    daemon=$!
    local begun=$SECONDS
    until [ "$(grep -c '^ready' daemon.err)" -ge "$1" ]; do
        kill -0 "$daemon" 2>/dev/null || fail "the scheduler ended: $(tail -1 daemon.err)"
        [ $((SECONDS - begun)) -lt 60 ] || fail "the scheduler is not ready"
        sleep 0.1
    done
    grep '^ready' daemon.err | tail -1
}

submit() { # submit NAME GPUS SEED STEPS
    local id
    id=$(shunter submit --parsable --name "$1" --gpus "$2" --steps "$4" --time 10m --chdir "$here" \
        -- python train.py "$3" "$4" 0.04)
    echo "$id $1 $2 $3 $4" | tee -a jobs.txt
}

steps_done() { cat attempts/jobs/*/*/stdout.0 2>/dev/null | wc -l; }

resumed() { find attempts/jobs -mindepth 2 -maxdepth 2 -name '[2-9]*' | wc -l; }

leave() {
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
}
trap leave EXIT
touch daemon.err

say "A scheduler, and three long jobs that take all four GPUs"
serve 1
submit long-a 2 1 240
submit long-b 1 2 300
submit long-c 1 3 280
sleep 9
shunter queue

say "Five short jobs arrive"
submit short-d 1 4 40
submit short-e 1 5 50
submit short-f 2 6 60
submit short-g 1 7 40
submit short-h 1 8 30
sleep 3
shunter queue
shunter why j1

say "The scheduler is killed; what it started runs on"
{
    kill -9 "$daemon"
    wait "$daemon" || true
} 2>/dev/null
before=$(steps_done) begun=$SECONDS
sleep 1
until [ "$(steps_done)" -gt "$before" ]; do
    [ $((SECONDS - begun)) -lt 60 ] || fail "nothing ran without the scheduler"
    sleep 0.2
done
echo "steps without a scheduler: $(($(steps_done) - before))"

say "It comes back, finds them, and goes on"
serve 2
begun=$SECONDS
until shunter queue --json | python -c 'import json, sys; sys.exit(bool(json.load(sys.stdin)["jobs"]))'; do
    [ $((SECONDS - begun)) -lt 240 ] || fail "some jobs do not end"
    sleep 1
done
shunter history

say "Every loss, against runs that nobody interrupted"
python "$here/check.py" "$here/train.py" "$work"
case $SHUNTER_POLICY__NAME in
    tiresias | las)
        [ "$(resumed)" -gt 0 ] || fail "$SHUNTER_POLICY__NAME preempted nobody" ;;
esac
echo "attempts that resumed a preempted job: $(resumed)"

say "The log decides every round once more"
kill "$daemon"
wait "$daemon"
daemon=
shunter replay --verify log.db
rm -rf "$work"
