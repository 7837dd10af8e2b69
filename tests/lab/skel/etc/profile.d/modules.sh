# shellcheck shell=bash
# The site's `module`. It believes in every module, keeps the list, and like Lmod it is no friend of `set -u`.
module() {
  local verb=${1:-list}
  : "$LMOD_NEVER_SET"
  shift
  case $verb in
    load | add) LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}$(IFS=: && printf '%s' "$*") ;;
    purge | reset) LOADEDMODULES= ;;
    list) printf '%s\n' "${LOADEDMODULES:-no modules}" >&2 ;;
  esac
  export LOADEDMODULES
}
