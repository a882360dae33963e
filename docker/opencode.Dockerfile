# kew-opencode: for the runner `opencode`. Node.js 22, npm, uv, ripgrep and opencode on top of what kew-shell has.
# No credential, no certificate and no package manager's settings in any layer; no Python.

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

# The agent is one native program in a platform package; its install script would only link it into place. Of the two
# for x86-64, the one that asks less of the processor.
FROM tools AS fetch
COPY opencode-package.json opencode-package-lock.json /fetch/
RUN sh /fetch/fetch.sh npm opencode \
    && cd /fetch/node_modules \
    && for folder in opencode-linux-x64-baseline opencode-linux-arm64; do \
        [ ! -d "$folder" ] || install -D -m 0755 "$folder/bin/opencode" /agent/bin/opencode; \
    done \
    && install -D -m 0644 opencode-ai/LICENSE /agent/share/doc/opencode/LICENSE \
    && cd / && rm -rf /fetch/node_modules \
    && /agent/bin/opencode --version

FROM common
COPY --from=tools /out/ /usr/local/
RUN sh /usr/local/lib/kew/image.sh search
COPY --from=fetch /agent/ /usr/local/
COPY entrypoint-lib.sh /usr/local/lib/kew/
COPY opencode-entrypoint.sh /usr/local/bin/kew-opencode-entrypoint
RUN chmod 0644 /usr/local/lib/kew/* && chmod 0755 /usr/local/bin/kew-opencode-entrypoint

# Prices come with the program; nothing is fetched, shared or updated from inside.
ENV HOME=/home/agent \
    OPENCODE_DISABLE_AUTOUPDATE=1 \
    OPENCODE_DISABLE_LSP_DOWNLOAD=1 \
    OPENCODE_DISABLE_MODELS_FETCH=1 \
    OPENCODE_DISABLE_SHARE=1
USER agent
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/kew-opencode-entrypoint"]
