#!/bin/sh
# Runs inside `docker build`, as root: the parts that every kew image has in common. Nothing here is used at run time.
#
#   image.sh base     git and the user `agent` (uid and gid 1001: what kew pins the tmpfs home to), /work, no setuid bits
#   image.sh tools    what a job or an agent expects to find: curl, jq, procps, CA certificates
#   image.sh search   what agents would else download by themselves: ripgrep, fd
#   image.sh python   for an agent that is written in it
#
# All Dockerfiles begin with the same instructions, so the engine stores these layers once and shares them.
set -eu

install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends "$@" >/dev/null
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log \
        /var/log/alternatives.log /usr/share/man/* /usr/share/info/*
    find /usr/share/doc -type f ! -name copyright -delete
}

# The container may not gain privileges anyway (no-new-privileges); this keeps the image sound where somebody forgets it.
drop_setuid() {
    find / -xdev -type f -perm /6000 -exec chmod a-s {} +
}

case "${1-}" in
base)
    groupadd --gid 1001 agent
    useradd --uid 1001 --gid 1001 --home-dir /home/agent --create-home --skel /nonexistent --shell /bin/bash agent
    # The engine gives a tmpfs the mode of the folder that it covers, whatever `mode=` says.
    chmod 0700 /home/agent
    install -d -o agent -g agent /work
    install_packages git
    drop_setuid
    ;;
tools)
    install_packages ca-certificates curl jq procps
    drop_setuid
    ;;
search)
    install_packages ripgrep fd-find
    ln -s fdfind /usr/bin/fd
    drop_setuid
    ;;
python)
    install_packages python3
    drop_setuid
    ;;
*)
    echo "usage: image.sh base|tools|search|python" >&2
    exit 2
    ;;
esac
