#!/bin/bash
# The gateway's two servers, as an unprivileged user with no capability. Everything that they know is below /run/kew, in
# memory: a gateway that starts, or starts again, allows nothing to anybody until kew says so.
#
# environment: KEW_GATEWAY_IP     its address on the internal network; it listens nowhere else
#              KEW_GATEWAY_NET    that network
#              KEW_GATEWAY_PORTS  TCP ports for TLS, separated by spaces
set -euo pipefail

: "${KEW_GATEWAY_IP:?}" "${KEW_GATEWAY_NET:?}" "${KEW_GATEWAY_PORTS:?}"
readonly run=/run/kew
umask 077
mkdir -p "$run/leases"
: >"$run/allow.map"
: >"$run/lock"
date +%s%N >"$run/generation"

binds=
for port in $KEW_GATEWAY_PORTS; do
    binds+="    bind $KEW_GATEWAY_IP:$port"$'\n'
done

# A connection is allowed if the map has `source|port|server name`; its value is where it goes, so what an agent
# writes is never resolved. HAProxy's lookups are strings up to a NUL, so a name of other than plain characters is refused
# before. No entry, no TLS hello, no name: closed.
cat >"$run/haproxy.cfg" <<CONFIG
global
    stats socket $run/control.sock mode 600 level admin
    stats timeout 10s
    log stdout format raw local0 info
    maxconn 4000
    nbthread 2

resolvers engine
    nameserver embedded 127.0.0.11:53
    accepted_payload_size 4096
    resolve_retries 3
    timeout resolve 1s
    timeout retry 1s
    hold valid 5s
    hold other 1s
    hold nx 1s
    hold obsolete 1s

defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    timeout client-fin 30s
    timeout server-fin 30s
    log global
    log-format "kew %Ts.%ms %ci %[var(sess.port)] %[var(sess.verdict)] %[var(sess.name)]"

frontend agents
$binds
    tcp-request connection set-var(sess.port) dst_port
    tcp-request connection set-var(sess.verdict) str(no-hello)
    tcp-request connection set-var(sess.name) str(-)
    tcp-request inspect-delay 10s
    tcp-request content reject unless { req.ssl_hello_type 1 }
    tcp-request content set-var(sess.verdict) str(no-name)
    tcp-request content reject unless { req.ssl_sni -m found }
    tcp-request content set-var(sess.verdict) str(odd-name)
    tcp-request content reject unless { req.ssl_sni,lower -m reg ^[a-z0-9][a-z0-9.-]{0,251}[a-z0-9]\z }
    tcp-request content set-var(sess.name) req.ssl_sni,lower
    tcp-request content set-var(sess.verdict) str(refused)
    tcp-request content set-var(sess.key) src,concat("|",sess.port),concat("|",sess.name)
    tcp-request content set-var(sess.to) var(sess.key),map_str($run/allow.map)
    tcp-request content reject unless { var(sess.to) -m found }
    tcp-request content set-var(sess.verdict) str(unresolved)
    tcp-request content do-resolve(sess.ip,engine,ipv4) var(sess.to)
    tcp-request content reject unless { var(sess.ip) -m found }
    # The inner network, this container and the metadata service, by whatever name, are no destinations.
    tcp-request content reject if { var(sess.ip) -m ip $KEW_GATEWAY_NET 127.0.0.0/8 169.254.0.0/16 0.0.0.0/8 224.0.0.0/3 }
    tcp-request content set-dst var(sess.ip)
    tcp-request content set-var(sess.verdict) str(allowed)
    default_backend hosts

# Without a name: what asks for plain HTTP is told so, and the host goes on record.
frontend plain
    mode http
    bind $KEW_GATEWAY_IP:80
    timeout http-request 10s
    timeout client 30s
    http-request set-var(sess.port) dst_port
    http-request set-var(sess.name) str(-)
    http-request set-var(sess.name) req.hdr(host),field(1,:),lower if { req.hdr(host),field(1,:),lower -m reg ^[a-z0-9][a-z0-9.-]{0,251}[a-z0-9]\z }
    http-request set-var(sess.verdict) str(plain)
    http-request return status 403 content-type text/plain string "kew: only TLS to allowed hosts leaves this network\n"

backend hosts
    server any 0.0.0.0:0
CONFIG

# Every name has the gateway's address, and none is asked for elsewhere: a lookup carries nothing out.
dnsmasq --keep-in-foreground --conf-file=/dev/null --pid-file= --no-resolv --no-hosts --no-poll --cache-size=0 \
    --local=/#/ --address=/#/"$KEW_GATEWAY_IP" --listen-address="$KEW_GATEWAY_IP" --bind-interfaces --except-interface=lo \
    --log-queries --log-facility=- &
haproxy -db -f "$run/haproxy.cfg" &
echo "kew gateway at $KEW_GATEWAY_IP, ports $KEW_GATEWAY_PORTS"
# One without the other is no gateway: the engine starts both again, with nothing allowed.
wait -n || true
echo "kew gateway: a server ended"
exit 1
