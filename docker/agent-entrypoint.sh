#!/bin/bash
# Entrypoint of kew-agent: the prompt goes to Claude Code on stdin, the arguments as they came. The host alone decides
# on model, permission mode and output format.
set -euo pipefail
. /usr/local/lib/kew/entrypoint-lib.sh

exec claude --print "$@" <"$PROMPT_FILE"
