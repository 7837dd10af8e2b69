# shellcheck shell=bash
# lib/whole.sh - is a checkpoint that lies whole on one file system complete? Its format's own judge decides
#
# A last file proves little: it is rank 0's, and another rank may have been killed before its own was written. Where Python
# gives no answer, rest is the proof, and what a killed rank was writing is at rest for ever: so it must have been so before.
#
# Functions
#   ol_whole_only    of the lines `STEP PATH` on stdin print those of complete checkpoints
#
# Files    OUTLAST_STATE/judged      what has been judged for good: `STATE RANKS PATH`, a line each
#          OUTLAST_STATE/torn.STEP   the ledger has been told
# Reads    OUTLAST_STORAGE OUTLAST_STATE/ranks OUTLAST_STATE/attempt OUTLAST_STATE/durable_step OUTLAST_STATE/term OUTLAST_CKPT_PREFIX
#          OUTLAST_CKPT_COMPLETE OUTLAST_CKPT_QUIET_S OUTLAST_NODES OUTLAST_RANKS_PER_NODE OUTLAST_SHARED_LIMIT_S
#          OL_SIDECAR_LOOPS (set: it is the sidecar that asks)
# Needs    log, bounded, ledger, py
# Sourcing it defines the functions above and does nothing else.

# What is not newer than the newest durable one has been decided.
ol_whole_only() {
  local step path durable=-1 ranks=''
  [[ ! -s $OUTLAST_STATE/durable_step ]] || read -r durable <"$OUTLAST_STATE/durable_step"
  read -r ranks 2>/dev/null <"$OUTLAST_STATE/ranks" || :
  while read -r step path; do
    ((step <= durable)) || _ol_whole_is "$step" "$path" "$ranks" || continue
    printf '%d %s\n' "$step" "$path"
  done
}

# When its ranks have ended nothing changes any more, so nobody is asked twice.
_ol_whole_is() { # STEP PATH RANKS
  local answer='' state
  state=$(_ol_whole_known "$2" "$3")
  [[ -n $state ]] || ! _ol_whole_is_late "$3" || state=silent
  if [[ -z $state ]]; then
    answer=$(_ol_whole_ask "$2" "$3") || answer=silent
    state=${answer%%$'\t'*}
    [[ $3 == running ]] || printf '%s %s %s\n' "$state" "${3// /,}" "$2" >>"$OUTLAST_STATE/judged"
  fi
  case $state in
    complete) return 0 ;;
    silent) _ol_whole_rested "$2" "$3" ;;
    *)
      [[ $3 == running ]] || _ol_whole_torn "$1" "${answer#*$'\t'}"
      return 1
      ;;
  esac
}

_ol_whole_known() { # PATH RANKS
  local state ranks path
  while read -r state ranks path; do
    [[ $ranks != "${2// /,}" || $path != "$1" ]] || printf '%s\n' "$state"
  done 2>/dev/null <"$OUTLAST_STATE/judged" | tail -n 1
}

# After TERM seconds count (PBS leaves ten): the supervisor asks nobody, and the sidecar not for what ranks wrote that all ended
# well.
_ol_whole_is_late() { # RANKS
  [[ -e $OUTLAST_STATE/term ]] && { [[ -z ${OL_SIDECAR_LOOPS:-} ]] || [[ $1 == ended\ *\ 0 ]]; }
}

# Print `complete|writing|torn|unknown`, a tab, and why. Before the first launch of a job its ranks are another job's, of a
# number and an end that nobody knows. A node's own disk has the files of its own ranks.
_ol_whole_ask() { # PATH RANKS
  local writer='' ended_s=0 code=1 world=0 limit_s=${OUTLAST_SHARED_LIMIT_S:-20}
  read -r writer ended_s code <<<"$2"
  if [[ $OUTLAST_STORAGE == local ]]; then
    world=$OUTLAST_RANKS_PER_NODE
  elif [[ -s $OUTLAST_STATE/attempt ]]; then
    world=$((OUTLAST_NODES * OUTLAST_RANKS_PER_NODE))
  fi
  [[ ! -e $OUTLAST_STATE/term ]] || limit_s=5
  case $writer in
    running) ;;
    ended) if [[ ${code:-1} == 0 ]]; then writer='done'; else writer=gone; fi ;;
    *) writer=gone ;;
  esac
  ol_py_ask "$limit_s" sidecar judge "$1" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_CKPT_COMPLETE" "$OUTLAST_CKPT_QUIET_S" \
    "$writer" "${ended_s:-0}" "$world"
}

# Was it at rest long enough before its ranks were killed?
_ol_whole_rested() { # PATH RANKS
  local writer='' ended_s=0 code=1 changed
  read -r writer ended_s code <<<"$2"
  [[ $writer == ended && $code != 0 ]] || return 0
  changed=$(ol_shared_print find "$1" -newermt "@$((ended_s - OUTLAST_CKPT_QUIET_S))" -print -quit) && [[ -z $changed ]]
}

_ol_whole_torn() { # STEP WHY
  (set -C && : >"$OUTLAST_STATE/torn.$1") 2>/dev/null || return 0
  ol_log_warn "checkpoint $1 is not whole: $2"
  ol_ledger_add checkpoint_torn step:="$1" why="$2"
}
