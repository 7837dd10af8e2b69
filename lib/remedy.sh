# shellcheck shell=bash
# lib/remedy.sh - what would not pass by itself: another checkpoint, one more try, or a person
#
# Functions
#   ol_remedy_then         print what follows of the classes bad_checkpoint and systemic
#   ol_remedy_is_wanted    does a checkpoint have to go before the run can go on?
#   ol_remedy_apply        take it out of use; 1: could not (OUTLAST_WHY)
#
# Sets     OUTLAST_WHY
# Reads    OUTLAST_CLASS OUTLAST_SCOPE OUTLAST_PERSISTENCE OUTLAST_FINGERPRINT OUTLAST_SUSPECT OUTLAST_EVERYWHERE
# Needs    log, bounded, ledger, history, ending, checkpoint, courier, mail
# Sourcing it defines the functions above and does nothing else.

# Once each: what fails again behind its remedy needs a person.
_ol_remedy_once() { # CLASS [KEY VALUE]
  local count
  count=$(ol_history_tried "$@")
  if ((count == 0)); then echo relaunch; else echo hold; fi
}

# Code and settings: before the first step another try is in vain. Later, one is worth it: most that looks like the
# program's fault after days of work is not there the next time.
_ol_remedy_systemic() {
  if [[ -n ${OUTLAST_EVERYWHERE:-} ]]; then
    echo hold
  elif [[ $OUTLAST_SCOPE == training-dynamics ]]; then
    _ol_remedy_once systemic scope training-dynamics
  elif [[ $OL_ENDING_EARLY == 1 && $OUTLAST_PERSISTENCE == systemic ]]; then
    echo hold
  else
    _ol_remedy_once systemic fingerprint "$OUTLAST_FINGERPRINT"
  fi
}

ol_remedy_then() {
  case $OUTLAST_CLASS in
    bad_checkpoint) if [[ -n ${OUTLAST_SUSPECT:-} ]]; then _ol_remedy_once bad_checkpoint; else echo hold; fi ;;
    *) _ol_remedy_systemic ;;
  esac
}

ol_remedy_is_wanted() {
  [[ $OUTLAST_CLASS == bad_checkpoint || ($OUTLAST_CLASS == systemic && $OUTLAST_SCOPE == training-dynamics) ]]
}

# Of a training that has gone wrong the newest checkpoint, also one that is still on its way, was made near that. The one
# before is left: without any it would be a fresh start, which a person decides on.
_ol_remedy_newest() {
  local count newest
  ol_sidecar_drain 120
  newest=$(ol_checkpoint_durable) || return
  count=$(ol_checkpoint_marked_count) || return
  ((count > 1)) || return 1
  printf '%s\n' "${newest#* }"
}

ol_remedy_apply() {
  local path=${OUTLAST_SUSPECT:-} name step left
  if [[ -z $path ]]; then
    path=$(_ol_remedy_newest) || {
      OUTLAST_WHY="$OUTLAST_CLASS: $OUTLAST_EVIDENCE; there is no older checkpoint to go back to"
      return 1
    }
  fi
  name=${path##*/}
  if ! ol_checkpoint_quarantine "$path" "$OUTLAST_CLASS: $OUTLAST_EVIDENCE"; then
    OUTLAST_WHY="$OUTLAST_CLASS: $OUTLAST_EVIDENCE; and $name could not be taken out of use"
    return 1
  fi
  step=${name#"$OUTLAST_CKPT_PREFIX"}
  step=$((10#${step%%[!0-9]*}))
  left=$(ol_checkpoint_durable) || left=''
  left=${left%% *}
  ol_log_warn "checkpoint $step is in quarantine; the one before is taken: ${left:-none is left}"
  ol_ledger_add quarantined step:="$step" durable_step:="${left:-0}" why="$OUTLAST_CLASS: $OUTLAST_EVIDENCE" by=outlast
  ol_mail_send damaged "checkpoint $step is not used any more" "$OUTLAST_CLASS: $OUTLAST_EVIDENCE. It is in $OUTLAST_RUN_DIR/quarantine; the one before is taken: ${left:-none is left}"
}
