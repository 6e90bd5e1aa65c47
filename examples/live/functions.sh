# What the examples of live schedulers share: sourced by local/run.sh and ssh/run.sh, which work in
# the folder `work`. `daemon` is the scheduler's process, as long as there is one.

trained=$(cd "$(dirname "${BASH_SOURCE[0]}")/local" && pwd)
[ -x "$trained/../../../.venv/bin/shunter" ] && PATH="$trained/../../../.venv/bin:$PATH"
daemon=
work=

say() { printf '\n== %s\n' "$*"; }

fail() {
    echo "failed: $*; see $work" >&2
    exit 1
}

needs_pytorch() { # which the jobs train with; says how to get it
    python -c 'import torch' 2>/dev/null && return
    echo "PyTorch is missing, and the jobs of this example train with it: $(command -v python) has none." >&2
    echo "Install it there (python -m pip install torch), or run \`make live\` once in the repository," >&2
    echo "which installs it into .venv; another build: make live TORCH=torch==VERSION" >&2
    exit 1
}

enter() { # enter HERE POLICY: begin in a folder of its own, with the cluster.toml of HERE
    work=$(mktemp -d "${TMPDIR:-/tmp}/shunter-example.XXXXXX")
    cp "${EXAMPLE_CLUSTER:-$1/cluster.toml}" "$work/cluster.toml"  # the same jobs elsewhere, say
    cd "$work"
    touch daemon.err jobs.txt
    export SHUNTER_POLICY__NAME=$2
    export SHUNTER_URL="unix:$work/shunter.sock" SHUNTER_SERVER__LISTEN="unix:$work/shunter.sock"
}

leave() { # the good end: nothing stays behind
    cd /
    rm -rf "$work"
    work=
}

comes_true() { # comes_true SECONDS COMMAND...: whether it does, within so long
    local most=$1 begun=$SECONDS
    shift
    until "$@"; do
        [ $((SECONDS - begun)) -lt "$most" ] || return 1
        sleep 0.2
    done
}

until_true() { # until_true SECONDS WHAT COMMAND...: fails with WHAT after so long
    local most=$1 what=$2
    shift 2
    comes_true "$most" "$@" || fail "$what"
}

is_ready() { # is_ready BEFORE: once more than before
    kill -0 "$daemon" 2>/dev/null || fail "the scheduler ended: $(tail -1 daemon.err)"
    [ "$(times_ready)" -gt "$1" ]
}

times_ready() { grep -cE '(^| )ready: ' daemon.err || true; }

serve() { # start the scheduler, for the first time or once more
    local before
    before=$(times_ready)
    shunter serve cluster.toml 2>>daemon.err &
    daemon=$!
    until_true 180 "the scheduler is not ready" is_ready "$before"
    grep -E '(^| )ready: ' daemon.err | tail -1
}

strike() { # the scheduler's end, without a word of warning
    {
        kill -9 "$daemon"
        wait "$daemon" || true
    } 2>/dev/null
    daemon=
}

strike_at_work() { # strike_at_work STEPS-COMMAND...: while a job trains, which must go on training
    # A scheduler may die just when all jobs have made room and nobody has been started instead:
    # then nothing runs until it is back. It is started, and struck once more.
    local times
    for times in 1 2 3; do
        strike
        before=$("$@")
        if comes_true 20 trained_since "$before" "$@"; then return; fi
        echo "nothing ran at that moment: once more"
        serve
        until_true 180 "nothing trains" trained_since "$before" "$@"
    done
    fail "nothing ran without the scheduler"
}

trained_since() { # trained_since BEFORE STEPS-COMMAND...
    local steps=$1
    shift
    [ "$("$@")" -gt "$steps" ]
}

finish() { # its good end
    kill "$daemon"
    wait "$daemon"
    daemon=
}

submit() { # submit NAME GPUS SEED STEPS: a step takes 0.04 s
    local id
    id=$(shunter submit --parsable --name "$1" --gpus "$2" --steps "$4" --time 10m \
        --chdir "$trained" -- python train.py "$3" "$4" 0.04)
    echo "$id $1 $2 $3 $4" | tee -a jobs.txt
}

submit_short_jobs() { # five of them, all at once
    local seed=4 steps one submitting=()
    for steps in 40 50 60 40 30; do
        submit "short-$seed" 1 "$seed" "$steps" &
        submitting+=($!)
        seed=$((seed + 1))
    done
    for one in "${submitting[@]}"; do wait "$one" || fail "a job was not taken"; done
}

all_ended() { # asked now and then: a command costs as much as a hundred steps of training
    sleep 1.5
    shunter queue --json | python -c 'import json, sys; sys.exit(bool(json.load(sys.stdin)["jobs"]))'
}
