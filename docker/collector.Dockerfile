# kew-collector: the sealed container that reads a checkout after its node has ended and packs what HEAD names.
# git, coreutils, findutils and sh, nothing else; kew passes the script. No network, no credential, no entrypoint.

# bookworm-20260824-slim
ARG BASE_IMAGE=debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
FROM ${BASE_IMAGE}
COPY image.sh /usr/local/lib/kew/image.sh
RUN sh /usr/local/lib/kew/image.sh base

ENV HOME=/home/agent
USER agent
WORKDIR /work
CMD ["/bin/sh"]
