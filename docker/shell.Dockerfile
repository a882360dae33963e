# kew-shell: runs the prompt as a bash script. No agent, no model, no credential.

# bookworm-20260824-slim
ARG BASE_IMAGE=debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
FROM ${BASE_IMAGE}
COPY image.sh /usr/local/lib/kew/image.sh
RUN sh /usr/local/lib/kew/image.sh base
RUN sh /usr/local/lib/kew/image.sh tools

COPY entrypoint-lib.sh shell-events.pl /usr/local/lib/kew/
COPY shell-entrypoint.sh /usr/local/bin/kew-shell-entrypoint
RUN chmod 0644 /usr/local/lib/kew/* && chmod 0755 /usr/local/bin/kew-shell-entrypoint

ENV HOME=/home/agent
USER agent
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/kew-shell-entrypoint"]
