# kew-hermes: for the runner `hermes`. Python 3.11, Node.js 22, npm, uv, ripgrep and hermes on top of what kew-shell has.
# No credential, no certificate and no package manager's settings in any layer.

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

# A virtual environment of its own, made where it will be.
FROM tools AS fetch
COPY hermes-requirements.txt /fetch/
RUN sh /fetch/fetch.sh pip hermes \
    && /usr/local/lib/hermes/bin/hermes --version

FROM common
COPY --from=tools /out/ /usr/local/
RUN sh /usr/local/lib/kew/image.sh search
RUN sh /usr/local/lib/kew/image.sh python
COPY --from=fetch /usr/local/lib/hermes/ /usr/local/lib/hermes/
RUN ln -s ../lib/hermes/bin/hermes /usr/local/bin/hermes
COPY entrypoint-lib.sh hermes-oneshot.py /usr/local/lib/kew/
COPY hermes-entrypoint.sh /usr/local/bin/kew-hermes-entrypoint
RUN chmod 0644 /usr/local/lib/kew/* && chmod 0755 /usr/local/bin/kew-hermes-entrypoint

ENV HOME=/home/agent \
    PYTHONDONTWRITEBYTECODE=1
USER agent
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/kew-hermes-entrypoint"]
