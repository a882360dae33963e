#!/bin/sh
# Runs inside `docker build`, as root: what the gateway runs, and nothing else. No user is made; it runs as nobody.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends dnsmasq-base haproxy iptables >/dev/null
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log \
    /var/log/alternatives.log /usr/share/man/* /usr/share/info/*
find /usr/share/doc -type f ! -name copyright -delete
find / -xdev -type f -perm /6000 -exec chmod a-s {} +
