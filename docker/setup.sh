#!/bin/bash
# Makes a machine ready for kew: a docker engine, the images, the allowlist network. Safe to run again: what is there
# and built from the same inputs stays. Installs and starts an engine only where none answers (Debian, as root).
# It never stops an engine or removes an image, and changes no network but kew's own.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: setup.sh [--no-agent] [--images A,B] [--no-smoke] [--help]

  --no-agent       only kew-collector, kew-gateway and kew-shell (the agents' images are large)
  --images A,B     only these of kew-collector, kew-gateway, kew-shell, kew-agent, kew-opencode, kew-pi, kew-hermes
  --no-smoke       do not start a container of each image

environment:
  KEW_EXTRA_CA        PEM file of certificates that downloads during a build need besides the public ones; it does not
                      get into an image. Unset: SSL_CERT_FILE, then NODE_EXTRA_CA_CERTS. Empty: none.
  KEW_BASE_IMAGE      base image instead of the pinned Debian one; must be there or be pullable
  KEW_DEBIAN_MIRROR   mirror for debootstrap, where the base image has to be made

exit status: 0 ready, 1 something is missing (the last line says what to do), 2 wrong arguments
TEXT
}

readonly NETWORK=kew-allowlist
readonly LOCAL_BASE=debian:bookworm-slim
readonly ENGINE_LOG=/var/log/kew-dockerd.log
readonly ENGINE_DEADLINE=60 # seconds

here="$(cd "$(dirname "$0")" && pwd)"
scratch=

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }
cleanup() { [ -z "$scratch" ] || rm -rf -- "$scratch"; }
trap cleanup EXIT

is_root() { [ "$(id -u)" = 0 ]; }

# --- engine ---------------------------------------------------------------------------------------------------------

engine_answers() { command -v docker >/dev/null && timeout 20 docker version -f '{{.Server.Version}}' >/dev/null 2>&1; }

install_packages() {
    command -v apt-get >/dev/null || die "cannot install $*: no apt-get; install it by hand and run this again"
    say "installing $*"
    DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || die "apt-get update failed; see above"
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null ||
        die "apt-get could not install $*; see above"
}

# Whether the pid file names a process that is a docker daemon.
daemon_lives() {
    local pid
    pid="$(cat /var/run/docker.pid 2>/dev/null)" || return 1
    [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]
}

start_engine() {
    if [ -d /run/systemd/system ]; then
        say "starting docker by systemd"
        systemctl start docker || die "systemctl start docker failed; see journalctl -u docker"
        return
    fi
    if daemon_lives; then
        say "a docker daemon is starting already"
        return
    fi
    rm -f /var/run/docker.pid # of a daemon that is gone
    say "starting dockerd, log in $ENGINE_LOG"
    setsid dockerd </dev/null >>"$ENGINE_LOG" 2>&1 &
}

wait_for_engine() {
    local end=$((SECONDS + ENGINE_DEADLINE))
    until engine_answers; do
        if [ $SECONDS -ge $end ]; then
            tail -n 20 "$ENGINE_LOG" >&2 2>/dev/null || true
            die "the docker engine did not answer within $ENGINE_DEADLINE s; its log is above"
        fi
        sleep 0.3
    done
}

ensure_engine() {
    if ! engine_answers; then
        if [ -n "${DOCKER_HOST-}" ]; then
            die "no engine answers at DOCKER_HOST=$DOCKER_HOST; start it, or unset DOCKER_HOST"
        elif ! is_root && [ -S /var/run/docker.sock ]; then
            die "/var/run/docker.sock does not answer this user; run as root, or join the group docker and log in again"
        elif ! is_root; then
            die "no docker engine; run this as root to install one, or start yours"
        fi
        command -v dockerd >/dev/null && command -v docker >/dev/null || install_packages docker.io ca-certificates iptables
        engine_answers || start_engine
        wait_for_engine
    fi
    say "engine $(docker version -f '{{.Server.Version}}')"
}

# --- base image -----------------------------------------------------------------------------------------------------

image_id() { docker image inspect -f '{{.Id}}' "$1" 2>/dev/null; }

# A minimal Debian, for machines that reach a Debian mirror but no image registry.
make_base() {
    is_root || die "cannot pull the base image, and making one needs root; run this as root once, or \`docker load\` one and set KEW_BASE_IMAGE"
    command -v debootstrap >/dev/null || install_packages debootstrap
    local root="$scratch/root" mirror
    say "making $LOCAL_BASE with debootstrap (about a minute)"
    debootstrap --variant=minbase bookworm "$root" ${KEW_DEBIAN_MIRROR:+"$KEW_DEBIAN_MIRROR"} >"$scratch/debootstrap.log" 2>&1 || {
        tail -n 20 "$scratch/debootstrap.log" >&2
        die "debootstrap failed; its log is above; KEW_DEBIAN_MIRROR sets another mirror"
    }
    mirror="$(awk '$1 == "deb" { print $2; exit }' "$root/etc/apt/sources.list")"
    printf 'deb %s %s main\n' "$mirror" bookworm "$mirror" bookworm-updates "${mirror%/}-security" bookworm-security \
        >"$root/etc/apt/sources.list"
    # Nothing of this machine, nothing that apt gets again, no manuals.
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/etc/resolv.conf \
        "$root"/etc/hostname "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/locale/*
    find "$root/usr/share/doc" -type f ! -name copyright -delete
    printf 'path-exclude /usr/share/%s/*\n' man info locale >"$root/etc/dpkg/dpkg.cfg.d/kew-slim"
    tar -C "$root" --numeric-owner -c . | docker import \
        -c 'CMD ["bash"]' -c 'LABEL kew.base=debootstrap' \
        -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - "$LOCAL_BASE" >/dev/null
    rm -rf -- "$root"
}

# Sets `base`, the reference to build from, and `base_id`.
ensure_base() {
    local pinned
    pinned="$(sed -n 's/^ARG BASE_IMAGE=//p' "$here/shell.Dockerfile")"
    base="${KEW_BASE_IMAGE:-$pinned}"
    base_id="$(image_id "$base")" && { say "base $base"; return; }
    if [ -z "${KEW_BASE_IMAGE-}" ] && base_id="$(image_id "$LOCAL_BASE")"; then
        base="$LOCAL_BASE"
        say "base $base, as it is on this engine (${base_id:7:12})"
        return
    fi
    say "pulling $base"
    if timeout 300 docker pull -q "$base" >/dev/null 2>"$scratch/pull.log"; then
        base_id="$(image_id "$base")"
        return
    fi
    [ -z "${KEW_BASE_IMAGE-}" ] || die "cannot pull KEW_BASE_IMAGE=$base: $(tail -n 1 "$scratch/pull.log")"
    say "no registry is reachable"
    base="$LOCAL_BASE"
    make_base
    base_id="$(image_id "$base")"
}

# --- images ---------------------------------------------------------------------------------------------------------

find_extra_ca() {
    extra_ca="${KEW_EXTRA_CA-${SSL_CERT_FILE:-${NODE_EXTRA_CA_CERTS:-}}}"
    if [ -n "$extra_ca" ] && [ ! -r "$extra_ca" ]; then
        [ -z "${KEW_EXTRA_CA-}" ] || die "KEW_EXTRA_CA=$extra_ca is not a readable file"
        extra_ca=
    fi
}

# The files that an image is made of: its Dockerfile, the files named after it, the common ones that it copies.
inputs_of() { # agent|shell|…
    local file
    for file in "$here/$1.Dockerfile" "$here/$1-"* "$here/image.sh" "$here/entrypoint-lib.sh"; do
        [ ! -f "$file" ] || echo "${file##*/}"
    done
    ! grep -q 'COPY fetch\.sh' "$here/$1.Dockerfile" || printf '%s\n' fetch.sh tools-requirements.txt
}

build() { # agent|shell|…
    local short="$1" image="kew-$1" inputs context="$scratch/context-$1" file started=$SECONDS
    mkdir "$context"
    for file in $(inputs_of "$short"); do
        install -m 0644 "$here/$file" "$context/$file"
    done
    inputs="$(cd "$context" && LC_ALL=C && { echo "$base_id"; sha256sum -- *; } | sha256sum | cut -d' ' -f1)"
    if [ "$(docker image inspect -f '{{index .Config.Labels "kew.inputs"}}' "$image" 2>/dev/null)" = "$inputs" ]; then
        say "$image is up to date"
        return
    fi
    [ -z "$extra_ca" ] || install -m 0644 "$extra_ca" "$context/extra-ca.pem"
    say "building $image"
    # The classic builder is on every engine; --network host lets downloads take the way that this machine takes.
    DOCKER_BUILDKIT="${DOCKER_BUILDKIT:-0}" docker build --network host --label "kew.inputs=$inputs" \
        --build-arg "BASE_IMAGE=$base" -f "$context/$short.Dockerfile" -t "$image" "$context" \
        >"$scratch/build.log" 2>&1 || {
        tail -n 30 "$scratch/build.log" >&2
        die "building $image failed; the end of its log is above. Behind a proxy with its own certificate set KEW_EXTRA_CA"
    }
    say "built $image in $((SECONDS - started)) s"
}

# --- network --------------------------------------------------------------------------------------------------------

# Networks, gateway and firewall rules are kew's own business: `kew sandbox network up`, by the program of this repository,
# else by an installed one.
ensure_network() {
    local kew=(kew)
    if [ -f "$here/../Cargo.toml" ] && command -v cargo >/dev/null; then
        kew=(cargo run --quiet --locked --manifest-path "$here/../Cargo.toml" --)
    elif ! command -v kew >/dev/null; then
        die "the images are there; the network is made by \`kew sandbox network up\`, and no kew is installed here"
    fi
    "${kew[@]}" sandbox network up || die "the network $NETWORK could not be made; see above"
}

# --- smoke ----------------------------------------------------------------------------------------------------------

# Runs a container as kew does and compares what it says on stdout.
expect() { # WHAT EXPECTED try.sh's arguments…
    local what="$1" expected="$2" got
    shift 2
    got="$("$here/try.sh" "$@" 2>"$scratch/smoke.$BASHPID.err")" || true
    [ "$got" = "$expected" ] || {
        cat "$scratch/smoke.$BASHPID.err" >&2
        die "$what: expected \`$expected\`, got \`$got\`"
    }
}

# The exact version of an agent, out of its lock file.
pinned() { # agent|opencode|pi|hermes
    local file="$here/$1-package.json"
    if [ -f "$file" ]; then
        sed -n '/"dependencies"/,/}/s/.*": "\([0-9.]*\)".*/\1/p' "$file"
    else
        sed -n "s/^$1-agent==\([0-9.]*\).*/\1/p" "$here/$1-requirements.txt"
    fi
}

smoke() { # agent|shell|…
    [ "$1" != gateway ] || return 0 # it runs no agent; the network shows whether it works
    local image="kew-$1" dir="$scratch/smoke-$1" prompt=$'echo "uid $(id -u)"\nexit 7' program="$1"
    mkdir "$dir"
    printf '%s\n' "$prompt" >"$dir/.kew-prompt.txt"
    chmod 0444 "$dir/.kew-prompt.txt"
    if is_root; then chown -R 1001:1001 "$dir"; else chmod 0777 "$dir"; fi
    expect "$image does not see the prompt file" "$prompt" --entrypoint cat "$dir" "$image" /work/.kew-prompt.txt
    case "$1" in
    agent | opencode | pi | hermes)
        [ "$1" != agent ] || program=claude
        expect "$image does not start its agent" "$(pinned "$1")" --entrypoint sh "$dir" "$image" -c \
            "$program --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1"
        ;;
    shell)
        expect "$image does not run a script" $'{"type":"output","text":"uid 1001"}\n{"type":"result","exit_code":7}' "$dir" "$image"
        ;;
    esac
    say "$image works"
}

# --- what is asked --------------------------------------------------------------------------------------------------

images=(collector gateway shell agent opencode pi hermes)
run_smoke=yes
while [ $# -gt 0 ]; do
    case "$1" in
    --no-agent) images=(collector gateway shell) ;;
    --images)
        IFS=, read -ra images <<<"${2-}"
        shift
        ;;
    --images=*) IFS=, read -ra images <<<"${1#--images=}" ;;
    --no-smoke) run_smoke=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done
images=("${images[@]#kew-}")
for image in "${images[@]}"; do
    [[ "$image" =~ ^[a-z]+$ && -f "$here/$image.Dockerfile" ]] || { say "no image \`$image\`; there are kew-collector, kew-gateway, kew-shell, kew-agent, kew-opencode, kew-pi, kew-hermes"; exit 2; }
done

scratch="$(mktemp -d "${TMPDIR:-/var/tmp}/kew-setup.XXXXXX")"
chmod 0755 "$scratch"
ensure_engine
ensure_base
find_extra_ca
for image in "${images[@]}"; do
    build "$image"
done
ensure_network
if [ "$run_smoke" = yes ]; then
    running=()
    for image in "${images[@]}"; do
        smoke "$image" &
        running+=($!)
    done
    failed=0
    for pid in "${running[@]}"; do
        wait "$pid" || failed=1
    done
    [ $failed = 0 ] || die "an image does not work; see above"
fi
say "ready"
