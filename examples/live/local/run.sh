#!/usr/bin/env bash
# Eight PyTorch jobs on a node of four made-up GPUs: some are preempted and resumed, the scheduler is
# killed and started again, and every loss is that of a run which nobody ever interrupted.
#
#     examples/live/local/run.sh [POLICY]      tiresias (the default), las, srtf, fifo, gavel
#
# Needs `shunter` and PyTorch: those of this repository after `make live`, or in the PATH.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../functions.sh"
trap '[ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true' EXIT

steps_of() { # steps_of JOB: how many its attempts have printed, wherever they ran
    find . -path "*/jobs/$1/*/stdout.0" -exec cat {} + 2>/dev/null | wc -l
}

has_done() { [ "$(steps_of "$1")" -gt "$2" ]; } # has_done JOB STEPS

resumed() { find . -path '*/jobs/*/[2-9]*/started' | wc -l; }

needs_pytorch
enter "$here" "${1:-tiresias}"

say "A scheduler, and three long jobs that take all four GPUs"
serve
submit long-1 2 1 480
submit long-2 1 2 560
submit long-3 1 3 520
shunter queue
until_true 300 "the first job does not train" has_done j1 160

say "Five short jobs arrive"
submit_short_jobs

say "The scheduler is killed; what it started runs on"
strike_at_work steps_of '*'
sleep 1
echo "steps without a scheduler: $(($(steps_of '*') - before))"

say "It comes back, finds them, and goes on"
serve
shunter queue
until_true 400 "some jobs do not end" all_ended
shunter history
shunter why j1

say "Every loss, against runs that nobody interrupted"
python "$here/check.py" "$here/train.py" "$work"
case $SHUNTER_POLICY__NAME in
    tiresias | las)
        [ "$(resumed)" -gt 0 ] || fail "$SHUNTER_POLICY__NAME preempted nobody" ;;
esac
echo "attempts that resumed a preempted job: $(resumed)"

say "The log decides every round once more"
finish
shunter replay --verify log.db
leave
