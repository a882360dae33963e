# kew-pi: for the runner `pi`. Node.js 22, npm, uv, ripgrep, fd and pi on top of what kew-shell has. No credential, no
# certificate and no package manager's settings in any layer; no Python.

# bookworm-20260824-slim
ARG BASE_IMAGE=debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
FROM ${BASE_IMAGE} AS common
COPY image.sh /usr/local/lib/kew/image.sh
RUN sh /usr/local/lib/kew/image.sh base
RUN sh /usr/local/lib/kew/image.sh tools

# Node.js, npm and uv: the same instructions for every agent, so one layer. Only /out leaves this stage.
FROM common AS tools
LABEL kew.stage=fetch
# extra-ca.pem is optional: the pattern may match nothing.
COPY fetch.sh tools-requirements.txt extra-ca.pe[m] /fetch/
RUN sh /fetch/fetch.sh tools

# Of what the packages bring along, only what runs here: no type declarations, source maps, examples or other systems.
FROM tools AS fetch
COPY pi-package.json pi-package-lock.json /fetch/
RUN sh /fetch/fetch.sh npm pi \
    && mkdir -p /agent/bin /agent/lib/pi \
    && mv /fetch/node_modules /agent/lib/pi/node_modules \
    && cd /agent/lib/pi/node_modules \
    && find . -type f \( -name "*.map" -o -name "*.d.ts" -o -name "*.d.mts" -o -name "*.d.cts" \) -delete \
    && rm -rf @earendil-works/pi-coding-agent/examples @earendil-works/pi-tui/native/darwin @earendil-works/pi-tui/native/win32 \
    && ln -s ../lib/pi/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js /agent/bin/pi \
    && PATH=/out/bin:$PATH PI_OFFLINE=1 /agent/bin/pi --version

FROM common
COPY --from=tools /out/ /usr/local/
RUN sh /usr/local/lib/kew/image.sh search
COPY --from=fetch /agent/ /usr/local/
COPY entrypoint-lib.sh /usr/local/lib/kew/
COPY pi-entrypoint.sh /usr/local/bin/kew-pi-entrypoint
RUN chmod 0644 /usr/local/lib/kew/* && chmod 0755 /usr/local/bin/kew-pi-entrypoint

# Prices come with the program; it asks nobody for updates.
ENV HOME=/home/agent \
    PI_OFFLINE=1 \
    PI_SKIP_VERSION_CHECK=1 \
    PI_TELEMETRY=0
USER agent
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/kew-pi-entrypoint"]
