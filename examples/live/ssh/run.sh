#!/usr/bin/env bash
# Eight PyTorch jobs on three hosts reached over SSH: some are preempted and go on elsewhere, a host
# loses its power, the scheduler is killed, and every loss is that of a run which nobody ever
# interrupted. First Tiresias decides, then Gavel, which knows that the GPUs are of three types.
#
#     examples/live/ssh/run.sh [POLICY...]      tiresias gavel, if none is named
#
# Needs openssh-server, PyTorch, and `shunter` with its extra ssh: those of this repository after
# `make live`, or in the PATH. The hosts are sshds on loopback, which any user may run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../functions.sh"
. "$here/hosts.sh"
hosts=(volta pascal kepler)

steps_on() { # steps_on HOST...
    local host
    for host in "$@"; do cat "$host"/base/clusters/*/jobs/*/*/stdout.0 2>/dev/null; done | wc -l
}

goes_on() { # goes_on STEPS HOST...
    local before=$1
    shift
    [ "$(steps_on "$@")" -gt "$before" ]
}

ran_on() { # each job that has printed anything, and each host where it has
    local host path job
    for host in "${hosts[@]}"; do
        for path in "$host"/base/clusters/*/jobs/*/*/stdout.0; do
            job=${path%/*/stdout.0}
            [ ! -s "$path" ] || echo "${job##*/} $host"
        done
    done
}

short_ones_train() { # whether one of j4 to j8 does
    ran_on | grep '^j[4-8] ' >/dev/null
}

has_moved() { # whether any job has run on two hosts
    [ -n "$(ran_on | sort -u | cut -d' ' -f1 | uniq -d)" ]
}

give_up() {
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
    [ -z "$work" ] || for host in "${hosts[@]}"; do power_off "$host"; done
}

play() { # play POLICY
    enter "$here" "$1"
    make_hosts "${hosts[@]}"
    for host in "${hosts[@]}"; do power_on "$host"; done

    say "$1: a scheduler, and three long jobs that take all six GPUs of ${hosts[*]}"
    serve
    submit long-1 2 1 720
    submit long-2 2 2 760
    submit long-3 2 3 740
    shunter queue
    for host in "${hosts[@]}"; do until_true 300 "nothing runs on $host" goes_on 60 "$host"; done

    say "The scheduler is killed; what it started runs on"
    strike_at_work steps_on "${hosts[@]}"

    say "It comes back and finds them; five short jobs arrive"
    serve
    submit_short_jobs
    until_true 300 "no short job trains" short_ones_train

    say "pascal loses its power, and what ran there goes on elsewhere"
    power_off pascal
    until_true 180 "nobody noticed that pascal is gone" is_lost pascal
    until_true 400 "no job went on elsewhere" has_moved
    shunter nodes

    say "pascal comes back, and all jobs end"
    power_on pascal
    until_true 400 "some jobs do not end" all_ended
    shunter history
    echo "The last line of j1, read on the host where it lies:"
    shunter logs --stdout j1 2>/dev/null | tail -1

    say "Every loss, against runs that nobody interrupted"
    python "$here/check.py" "$trained/train.py" "$work" "${hosts[@]}"

    say "The log decides every round once more"
    finish
    shunter replay --verify log.db
    for host in "${hosts[@]}"; do power_off "$host"; done
    leave
}

is_lost() { # is_lost HOST
    shunter nodes --json | python -c 'import json, sys
print(next(one["state"] for one in json.load(sys.stdin)["nodes"] if one["name"] == sys.argv[1]))' \
        "$1" | grep -q lost
}

trap give_up EXIT
[ $# -gt 0 ] || set -- tiresias gavel
needs_pytorch
for policy in "$@"; do play "$policy"; done
