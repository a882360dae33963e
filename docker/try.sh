#!/bin/bash
# Runs one container by hand exactly as kew runs it: the same hardening, the same mount, nothing else.
# DIR is the checkout; the container's uid 1001 must be able to write there (chown -R 1001:1001 DIR).
#
# usage: try.sh [--entrypoint PROGRAM] [--env NAME]… [--network NETWORK] [--name NAME] DIR IMAGE [ARGUMENT…]
set -euo pipefail

network=kew-allowlist
name="kew-try-$$-$RANDOM"
options=()
while [[ "${1-}" == --* ]]; do
    case "$1" in
    --entrypoint) options+=(--entrypoint "$2") ;;
    --env) options+=(-e "$2") ;;
    --network) network="$2" ;;
    --name) name="$2" ;;
    *) sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2 ;;
    esac
    shift 2
done
if [ $# -lt 2 ]; then
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
fi
dir="$(cd "$1" && pwd -P)"
image="$2"
shift 2
# The gateway is the name server there, and none of the host's may answer instead. Without an address that kew leased it
# lets nothing through.
if [ "$network" = kew-allowlist ]; then
    options+=(--dns 172.31.248.2)
fi

exec docker run --rm --name "$name" --init \
    --pull never --read-only \
    --tmpfs /tmp:size=256m \
    --tmpfs /home/agent:exec,uid=1001,gid=1001,mode=0700,size=1g \
    --cap-drop ALL --security-opt no-new-privileges \
    --pids-limit 512 --memory 4g --memory-swap 4g --cpus "${KEW_TRY_CPUS:-1}" --ulimit fsize=4294967296 \
    --log-driver none --network "$network" \
    -v "$dir:/work" -w /work \
    "${options[@]}" "$image" "$@"
