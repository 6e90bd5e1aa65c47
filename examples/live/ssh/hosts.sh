# Three hosts on this machine, each an sshd at an address of its own: sourced by run.sh, which sets
# `work` and runs in it. A host's folder holds its key, its configuration, a home and a base.

PATH="$PATH:/usr/sbin:/sbin"
command -v sshd >/dev/null || { echo "needs openssh-server" >&2; exit 1; }

make_hosts() { # make_hosts NAME...
    local name number=2 port
    ssh-keygen -q -t ed25519 -N '' -C example -f client_key
    cp client_key.pub authorized_keys
    [ "$(id -u)" -ne 0 ] || mkdir -p -m 755 /run/sshd
    for name in "$@"; do
        mkdir -p "$name/home" "$name/base"
        ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$name/key"
        port=$(free_port "127.0.0.$number")
        printf '%s\n' "Port $port" "ListenAddress 127.0.0.$number" "HostKey $work/$name/key" \
            "AuthorizedKeysFile $work/authorized_keys" "PidFile none" "StrictModes no" "UsePAM no" \
            "PasswordAuthentication no" "PermitRootLogin prohibit-password" \
            "Subsystem sftp internal-sftp" "SetEnv HOME=$work/$name/home" >"$name/sshd_config"
        echo "[127.0.0.$number]:$port $(cut -d' ' -f1,2 "$name/key.pub")" >>known_hosts
        cat >>cluster.toml <<TABLE

[backend.ssh.hosts.$name]
address = "127.0.0.$number"
port = $port
base = "$work/$name/base"
environment = { PATH = "$PATH" }
TABLE
        number=$((number + 1))
    done
}

free_port() { # free_port ADDRESS
    python3 -c 'import socket, sys; s = socket.socket(); s.bind((sys.argv[1], 0))
print(s.getsockname()[1])' "$1"
}

power_on() { # power_on NAME
    "$(command -v sshd)" -D -f "$work/$1/sshd_config" -E "$work/$1/log" &
    echo $! >"$1/pid"
}

power_off() { # power_off NAME: its sshd, whom it serves, and all that runs there die at once
    local pid listener
    listener=$(cat "$1/pid")
    kill -STOP "$listener" 2>/dev/null || return 0  # nobody gets in any more
    for pid in $(freeze "$listener") $(supervisors "$1") "$listener"; do
        kill -9 "$pid" 2>/dev/null || true
    done
    wait "$listener" 2>/dev/null || true
}

freeze() { # freeze PID: stop all below it, so that nobody sees another die; print them
    local child
    for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        kill -STOP "$child" 2>/dev/null || true
        echo "$child"
        freeze "$child"
    done
}

supervisors() { # supervisors NAME: those of attempts that have not ended; their ranks die with them
    local started
    for started in "$1"/base/clusters/*/jobs/*/*/started; do
        [ -e "$started" ] && [ ! -e "${started%started}status" ] &&
            python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["pid"])' "$started"
    done
    return 0
}
