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
repository=$(cd "$here/../../.." && pwd)
[ -x "$repository/.venv/bin/shunter" ] && PATH="$repository/.venv/bin:$PATH"
hosts=(volta pascal kepler)
daemon=
work=

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
        [ $((SECONDS - begun)) -lt 30 ] || fail "the scheduler is not ready"
        sleep 0.1
    done
    grep '^ready' daemon.err | tail -1
}

submit() { # submit NAME GPUS SEED STEPS
    local id
    id=$(shunter submit --parsable --name "$1" --gpus "$2" --steps "$4" --time 10m \
        --chdir "$repository/examples/live/local" -- python train.py "$3" "$4" 0.04)
    echo "$id $1 $2 $3 $4" | tee -a jobs.txt
}

until_true() { # until_true SECONDS WHAT COMMAND...
    local most=$1 what=$2 begun=$SECONDS
    shift 2
    until "$@"; do
        [ $((SECONDS - begun)) -lt "$most" ] || fail "$what"
        sleep 0.5
    done
}

all_ended() {
    shunter queue --json | python -c 'import json, sys; sys.exit(bool(json.load(sys.stdin)["jobs"]))'
}

steps_on() { # steps_on HOST...
    local host
    for host in "$@"; do cat "$host"/base/clusters/*/jobs/*/*/stdout.0 2>/dev/null; done | wc -l
}

goes_on() { # goes_on STEPS HOST...
    local before=$1
    shift
    [ "$(steps_on "$@")" -gt "$before" ]
}

leave() {
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
    [ -z "$work" ] || for host in "${hosts[@]}"; do power_off "$host"; done
}

play() { # play POLICY
    work=$(mktemp -d "${TMPDIR:-/tmp}/shunter-example.XXXXXX")
    cp "$here/cluster.toml" "$work"
    cd "$work"
    export SHUNTER_POLICY__NAME=$1
    export SHUNTER_URL="unix:$work/shunter.sock" SHUNTER_SERVER__LISTEN="unix:$work/shunter.sock"
    touch daemon.err jobs.txt
    make_hosts "${hosts[@]}"
    for host in "${hosts[@]}"; do power_on "$host"; done

    say "$1: a scheduler, and three long jobs that take all six GPUs of ${hosts[*]}"
    serve 1
    submit long-a 2 1 240
    submit long-b 2 2 280
    submit long-c 2 3 260
    for host in "${hosts[@]}"; do until_true 60 "nothing runs on $host" goes_on 60 "$host"; done
    shunter queue

    say "Five short jobs arrive"
    submit short-d 1 4 50
    submit short-e 1 5 60
    submit short-f 2 6 50
    submit short-g 1 7 40
    submit short-h 1 8 40
    sleep 2
    shunter queue

    say "The scheduler is killed; what it started runs on"
    local before
    before=$(steps_on "${hosts[@]}")
    {
        kill -9 "$daemon"
        wait "$daemon" || true
    } 2>/dev/null
    until_true 30 "nothing ran without the scheduler" goes_on "$before" "${hosts[@]}"

    say "It comes back, finds them, and goes on; then pascal loses its power"
    serve 2
    sleep 3
    power_off pascal
    until_true 60 "nobody noticed that pascal is gone" is_lost pascal
    shunter nodes

    say "pascal comes back, and all jobs end"
    power_on pascal
    until_true 240 "some jobs do not end" all_ended
    shunter history
    echo "The last line of j1, read on the host where it lies:"
    shunter logs j1 2>/dev/null | tail -1

    say "Every loss, against runs that nobody interrupted"
    python "$here/check.py" "$repository/examples/live/local/train.py" "$work" "${hosts[@]}"

    say "The log decides every round once more"
    kill "$daemon"
    wait "$daemon"
    daemon=
    shunter replay --verify log.db
    for host in "${hosts[@]}"; do power_off "$host"; done
    cd /
    rm -rf "$work"
    work=
}

is_lost() { # is_lost HOST
    shunter nodes --json | python -c 'import json, sys
print(next(one["state"] for one in json.load(sys.stdin)["nodes"] if one["name"] == sys.argv[1]))' \
        "$1" | grep -q lost
}

. "$here/hosts.sh"
trap leave EXIT
for policy in "${@:-tiresias gavel}"; do
    for one in $policy; do play "$one"; done
done
