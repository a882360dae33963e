# kew-agent: the reference image, for the runner `claude-code`. Node.js 22, npm, uv and Claude Code on top of what
# kew-shell has. No credential, no certificate and no package manager's settings in any layer; no Python.

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

# The agent is one native program in a platform package; its install script would only link it into place.
FROM tools AS fetch
COPY agent-package.json agent-package-lock.json /fetch/
RUN sh /fetch/fetch.sh npm agent \
    && install -D -m 0755 /fetch/node_modules/@anthropic-ai/claude-code-linux-*[46]/claude /agent/bin/claude \
    && rm -rf /fetch/node_modules \
    && /agent/bin/claude --version

FROM common
COPY --from=tools /out/ /usr/local/
COPY --from=fetch /agent/ /usr/local/
COPY entrypoint-lib.sh /usr/local/lib/kew/
COPY agent-entrypoint.sh /usr/local/bin/kew-agent-entrypoint
RUN chmod 0644 /usr/local/lib/kew/* && chmod 0755 /usr/local/bin/kew-agent-entrypoint

# An image cannot update itself, and kew repeats a node by its own rules.
ENV HOME=/home/agent \
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
    DISABLE_AUTOUPDATER=1 \
    CLAUDE_CODE_MAX_RETRIES=3
USER agent
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/kew-agent-entrypoint"]
