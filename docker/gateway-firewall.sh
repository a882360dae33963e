#!/bin/bash
# Sets or shows the host's firewall rules for kew's networks. Runs in a container with the host's network and NET_ADMIN
# (NET_RAW too, where the host uses the legacy tables), once. Without these rules agents cannot reach the gateway; with
# them they reach it and nothing else.
#
# usage: gateway-firewall.sh set|check|remove INNER_BRIDGE OUTER_BRIDGE SUBNET GATEWAY
# exit status: 0 done (check: the rules are there), 1 not, 3 no table here has docker's chain DOCKER-USER
set -euo pipefail

what="$1" inner="$2" outer="$3" subnet="$4" gateway="$5"
readonly chain=KEW-EGRESS

# The tables that docker uses: those with its chain.
tables=
for kind in nft legacy; do
    if "iptables-$kind" -w 10 -n -L DOCKER-USER >/dev/null 2>&1; then
        tables=$kind
        break
    fi
done
[ -n "$tables" ] || { echo "no chain DOCKER-USER" >&2; exit 3; }

four() { "iptables-$tables" -w 10 "$@"; }
six() { "ip6tables-$tables" -w 10 "$@" 2>/dev/null; }

# One line each: what is accepted, in order; the last drops.
rules() {
    echo "-o $inner -s $subnet -d $gateway -p tcp -j ACCEPT"
    echo "-o $inner -s $subnet -d $gateway -p udp --dport 53 -j ACCEPT"
    echo "-o $inner -s $gateway -m conntrack --ctstate ESTABLISHED -j ACCEPT"
    echo "-j DROP"
}
jumps() {
    echo "DOCKER-USER -i $inner -j $chain"
    echo "DOCKER-USER -i $outer -d 169.254.0.0/16 -j DROP"
    echo "INPUT -i $inner -j DROP"
}
# No IPv6 is given out there; whatever should come all the same goes nowhere.
jumps_six() {
    echo "INPUT -i $inner -j DROP"
    echo "FORWARD -i $inner -j DROP"
}

# A rule at the top of its chain, once.
top() { # four|six CHAIN RULE…
    local table="$1" into="$2"
    shift 2
    while "$table" -D "$into" "$@" 2>/dev/null; do :; done
    "$table" -I "$into" 1 "$@"
}

set_all() {
    four -n -L "$chain" >/dev/null 2>&1 || four -N "$chain"
    # New rules first, then the old ones go: at no time is there nothing.
    local before line number
    before="$(four -S "$chain" | grep -c '^-A' || true)"
    rules | while read -r line; do four -A "$chain" $line; done
    for ((number = 0; number < before; number++)); do four -D "$chain" 1; done
    jumps | while read -r line; do top four $line; done
    jumps_six | while read -r line; do top six $line || true; done
}

check_all() {
    # Packets between containers of one bridge pass the tables only with this; docker sets it where it separates containers.
    if [ "$(cat /proc/sys/net/bridge/bridge-nf-call-iptables 2>/dev/null)" != 1 ]; then
        echo "net.bridge.bridge-nf-call-iptables is not 1 on the engine's host, so containers are not kept apart" >&2
        return 1
    fi
    [ "$(four -S "$chain" 2>/dev/null | grep -c '^-A')" = "$(rules | wc -l)" ] || return 1
    rules | while read -r line; do four -C "$chain" $line 2>/dev/null || return 1; done
    jumps | while read -r line; do four -C $line 2>/dev/null || return 1; done
}

remove_all() {
    local line
    jumps | while read -r line; do while four -D $line 2>/dev/null; do :; done; done
    jumps_six | while read -r line; do while six -D $line; do :; done; done
    four -F "$chain" 2>/dev/null || true
    four -X "$chain" 2>/dev/null || true
}

case "$what" in
set) set_all ;;
check) check_all ;;
remove) remove_all ;;
*) exit 1 ;;
esac
