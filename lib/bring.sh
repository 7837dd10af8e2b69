# shellcheck shell=bash
# lib/bring.sh - Python for other nodes, brought there as words of a launcher's command line
#
# A thousand nodes that read it from the shared file system would wait for it, and hang with it. So the first node reads the few
# files that are needed, and each node writes them to its own disk, as DIR/outlast/sidecar/NAME.py.
#
# Functions
#   ol_bring NAME...                     sets OL_BRING, the files as words: sidecar/NAME.py of the run's own copy, kept in
#                                        OUTLAST_LOCAL/py when they were read. 1: one cannot be read (OL_BRING is empty)
# On the nodes, where `declare -f` has brought them, too:
#   ol_bring_here DIR WORD...            write these files below DIR. 1: no room
#   ol_bring_run DIR NAME PYTHON ARG...  run NAME.py by a Python of the node, 3.6 or newer, and by PYTHON where there is none.
#                                        Its status; after a 4 (`not by this Python`) the next one tries; 127 there is none
#
# Sets     OL_BRING
# Reads    OUTLAST_LOCAL OUTLAST_RUN_DIR OUTLAST_VERSION
# Needs    bounded
# Sourcing it defines the functions above and does nothing else.

# Each file is a word of its own, its name on the first line: the kernel takes no word of more than 128 KiB (MAX_ARG_STRLEN).
ol_bring() {
  local name text words=()
  OL_BRING=()
  for name in "$@"; do
    if [[ -s $OUTLAST_LOCAL/py/outlast/sidecar/$name.py ]]; then
      text=$(<"$OUTLAST_LOCAL/py/outlast/sidecar/$name.py")
    else
      text=$(ol_shared_print cat "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast/sidecar/$name.py") && [[ -n $text ]] || return 1
      ol_bring_here "$OUTLAST_LOCAL/py" "$name"$'\n'"$text" || : # no room: it is read again the next time
    fi
    words+=("$name"$'\n'"$text")
  done
  OL_BRING=("${words[@]}")
}

# Whole or not at all: somebody may be running what is there. (No $'...' here: not every Bash prints that as it was.)
ol_bring_here() {
  local dir=$1/outlast/sidecar word end new
  shift
  printf -v end '\n'
  mkdir -p "$dir" && : >"${dir%/*}/__init__.py" && : >"$dir/__init__.py" || return 1
  for word in "$@"; do
    new=$dir/.${word%%"$end"*}.$BASHPID
    if ! printf '%s\n' "${word#*"$end"}" >"$new" || ! mv -f "$new" "$dir/${word%%"$end"*}.py"; then
      rm -f "$new"
      return 1
    fi
  done
}

# An interpreter of ours may lie on the shared file system, so it is tried last.
ol_bring_run() {
  local file=$1/outlast/sidecar/$2.py python status=127
  for python in /usr/bin/python3 python3 "$3"; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null || continue
    status=0
    "$python" -I -B "$file" "${@:4}" || status=$?
    ((status == 4)) || break
  done
  return "$status"
}
