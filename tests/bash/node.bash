# shellcheck shell=bash
# tests/bash/node.bash - nodes as tests/fixtures/nodes describes them: a folder that stands for / , and tools that read from it

NODES=$ROOT/tests/fixtures/nodes

# Make the root of a node: `a_node VENDOR[/STATE]`; sets OUTLAST_SYSROOT, and puts its tools in front.
a_node() {
  local vendor=${1%%/*} state=healthy
  [[ $1 != */* ]] || state=${1#*/}
  OUTLAST_SYSROOT=$BATS_TEST_TMPDIR/$vendor.$state
  rm -rf "$OUTLAST_SYSROOT"
  mkdir -p "$OUTLAST_SYSROOT/proc"
  _node_unpack "$NODES/$vendor/healthy"
  [[ $state == healthy ]] || _node_unpack "$NODES/$vendor/$state"
  _node_tools
}

_node_unpack() { # FILE
  local line paths path content
  while IFS= read -r line; do
    [[ -n $line && $line != '#'* ]] || continue
    if [[ $line == '- '* ]]; then
      _node_paths "${line#- }"
      for path in "${paths[@]}"; do rm -r "${OUTLAST_SYSROOT:?}/$path"; done
      continue
    fi
    [[ $line == *' = '* || $line != *' -> '* ]] || line=${line/' -> '/' = -> '}
    content=${line#*' ='} content=${content# }
    _node_paths "${line%%' ='*}"
    for path in "${paths[@]}"; do _node_put "$OUTLAST_SYSROOT/$path" "$content"; done
  done <"$1"
}

# Sets paths; braces are expanded as Bash does, and nothing else is.
_node_paths() {
  local quoted
  printf -v quoted '%q' "$1"
  quoted=${quoted//\\\{/\{} quoted=${quoted//\\\}/\}} quoted=${quoted//\\,/,}
  [[ $1 == *'{'* ]] || quoted=${quoted//,/\\,}
  eval "paths=($quoted)" # the braces are only known to the shell itself
}

_node_put() { # PATH CONTENT
  local folder=${1%/*}
  [[ $1 != *'/tools/'* ]] || folder=${1%%/tools/*}/tools
  mkdir -p "$folder"
  case $2 in
    '<folder>') mkdir -p "$1" ;;
    '<hangs>')
      rm -f "$1"
      mkfifo "$1"
      ;;
    '-> '*) ln -sfn "${2#-> }" "$1" ;;
    *) printf '%b' "$2" >"$1" ;;
  esac
}

# A tool says what its command line is recorded with; of one that is not, it knows nothing.
_node_tools() {
  local name
  mkdir -p "$OUTLAST_SYSROOT/bin"
  for name in nvidia-smi rocm-smi amd-smi xpu-smi; do
    # shellcheck disable=SC2016 # expanded by the tool
    printf '#!/bin/bash\nfile="%s/tools/${0##*/} $*"\n[[ -e $file ]] && exec cat "$file"\necho "unknown command" >&2\nexit 2\n' \
      "$OUTLAST_SYSROOT" >"$OUTLAST_SYSROOT/bin/$name"
    chmod +x "$OUTLAST_SYSROOT/bin/$name"
  done
  PATH=$OUTLAST_SYSROOT/bin:$PATH
}

# The answer to one check: `ANSWER SEEN (EXPECTED)`.
answer_of() { # CHECK
  export OUTLAST_NODECHECK=1
  _ol_nodecheck_one "$1" | awk -F'\t' '$1 == "say" { print $3 " " $4 " (" $5 ")" }'
}

# Rows `STATE | CHECK | ANSWER SEEN...` on stdin, the last a pattern: all that are otherwise are shown.
rows_of() { # VENDOR
  local state check wanted said wrong='' made=''
  set +T # without it bats looks at each command of the checks
  while IFS='|' read -r state check wanted; do
    state=${state// /} check=${check// /} wanted=${wanted# }
    [[ -n $state ]] || continue
    [[ $made == "$state" ]] || a_node "$1/$state"
    made=$state
    said=$(answer_of "$check")
    # shellcheck disable=SC2053 # a pattern
    [[ $said == $wanted ]] || wrong+="$1/$state: $check: wanted $wanted, got $said"$'\n'
  done
  set -T
  [[ -z $wrong ]] || { printf '%s' "$wrong" && return 1; }
}
