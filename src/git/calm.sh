# Put before the scripts that run git over a checkout that an agent has had: git without the checkout's say and under time
# limits. It leaves GIT_DIR to them.
set -uf

export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export GIT_ALLOW_PROTOCOL= GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_OPTIONAL_LOCKS=0
pairs=0
setting() {
    export "GIT_CONFIG_KEY_$pairs=$1" "GIT_CONFIG_VALUE_$pairs=$2"
    pairs=$((pairs + 1))
    export GIT_CONFIG_COUNT=$pairs
}
setting safe.directory '*'
setting core.fsmonitor false
setting core.hooksPath /dev/null
setting core.attributesFile /dev/null
setting core.excludesFile /dev/null
setting core.commitGraph false
setting core.multiPackIndex false
setting core.quotePath true
setting core.untrackedCache false
setting submodule.recurse false
setting gc.auto 0
# What is packed must be exactly what `rev-list --objects HEAD --not INPUT` lists on the other side.
setting pack.useSparse false
setting pack.useBitmaps false
setting pack.threads 1
setting pack.window 10
setting pack.depth 50
setting pack.packSizeLimit 0

fail() {
    echo "kew-collect: $2" >&2
    exit "$1"
}

# Git opens many files by name, here and wherever a configuration points; a pipe or a device would keep it waiting. Where
# there is one, all git commands together get what is left of a few seconds.
until='' why=''
beware() {
    blocking=$(timeout -k 2 30 find "$1" \( -xtype p -o -xtype c ! -lname /dev/null -o -xtype b \) -print -quit 2>/dev/null)
    status=$?
    if [ -n "$blocking" ] || [ $status -eq 124 ] || [ $status -eq 137 ]; then
        until=$(($(date +%s) + 8))
        [ -z "$blocking" ] || why=", and the checkout has a pipe or a device in it"
    fi
}
# Seconds, then a git command.
within() {
    seconds=$1
    shift
    if [ -n "$until" ]; then
        left=$((until - $(date +%s)))
        [ $left -ge 1 ] || left=1
        [ $left -ge "$seconds" ] || seconds=$left
    fi
    timeout -k 2 "$seconds" git "$@"
}
# The status of such a command: ends the script where time ran out (124; 137 where it had to be killed).
check_time() {
    case $1 in 124 | 137) fail 12 "git took too long$why" ;; esac
}

