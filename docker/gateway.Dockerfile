# kew-gateway: the one way out of the network kew-allowlist. HAProxy reads the server name of a TLS hello and forwards to
# allowed hosts, dnsmasq answers every name with the gateway's own address; neither asks or tells anybody else. The same
# image, as root with NET_ADMIN, sets the host's firewall rules (gateway-firewall.sh). It runs no agent and has no /work.

# bookworm-20260824-slim
ARG BASE_IMAGE=debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
FROM ${BASE_IMAGE}
COPY gateway-install.sh /usr/local/lib/kew/gateway-install.sh
RUN sh /usr/local/lib/kew/gateway-install.sh

COPY gateway-control.pl gateway-entrypoint.sh gateway-firewall.sh /usr/local/lib/kew/
RUN chmod 0755 /usr/local/lib/kew/gateway-*

USER 65534:65534
WORKDIR /
ENTRYPOINT ["/usr/local/lib/kew/gateway-entrypoint.sh"]
