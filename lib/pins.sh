# shellcheck shell=bash
# lib/pins.sh - is what the run trains with still what its first launch found? (docs/pins.md)
#
# Functions
#   ol_pins_begin    start to look, beside the staging
#   ol_pins_end      wait for the answer. 0 the same, nothing is pinned, or nobody could tell; 1 not the same
#                    (OUTLAST_WHY); 2 the job is told to end
#
# Sets     OUTLAST_WHY
# Reads    OUTLAST_PIN_FILES OUTLAST_PIN_COMMANDS OUTLAST_PIN_GIT OUTLAST_RUN_DIR OUTLAST_STATE OUTLAST_PROJECT OUTLAST_JOB_ID
#          OUTLAST_ATTEMPT
# Needs    log, bounded, ledger, attempt, py
# Sourcing it defines the functions above and does nothing else.

# What each command says, in the trainer's environment. Its status belongs to it.
_ol_pins_ask() {
  local number status out=$OUTLAST_STATE/pins
  mkdir -p "$out"
  for ((number = 0; number < ${#OUTLAST_PIN_COMMANDS[@]}; number++)); do
    status=0
    ol_bounded 60 bash -c "${OUTLAST_PIN_COMMANDS[number]}" 2>&1 | head -c 65536 >"$out/$number" || status=$?
    ((status == 0)) || printf 'status %d\n' "$status" >>"$out/$number"
  done
}

_ol_pins_look() {
  local words=() name
  for name in "${OUTLAST_PIN_FILES[@]}"; do words+=("--file=$name"); done
  for name in "${OUTLAST_PIN_COMMANDS[@]}"; do words+=("--command=$name"); done
  [[ $OUTLAST_PIN_GIT == 0 ]] || words+=(--git)
  # The run's first job may still be making the tools.
  ol_py_install >&2
  ol_py_ask 600 pins "$OUTLAST_RUN_DIR" --job="$OUTLAST_JOB_ID" --outputs="$OUTLAST_STATE/pins" --limit-s=580 "${words[@]}"
}

ol_pins_begin() {
  [[ -z ${OL_PINS_PID:-} ]] || kill "$OL_PINS_PID" 2>/dev/null || true # of an attempt that could not be staged
  OL_PINS_PID=''
  ((${#OUTLAST_PIN_FILES[@]} + ${#OUTLAST_PIN_COMMANDS[@]} + OUTLAST_PIN_GIT > 0)) || return 0
  (
    trap - TERM USR1 EXIT
    if ((${#OUTLAST_PIN_COMMANDS[@]} > 0)); then
      (
        _ol_attempt_environment ''
        cd "$OUTLAST_PROJECT" && ol_job_setup >/dev/null && _ol_pins_ask
      ) || exit
    fi
    _ol_pins_look
  ) >"$OUTLAST_STATE/pins.answer.$OUTLAST_ATTEMPT" &
  OL_PINS_PID=$!
}

ol_pins_end() {
  local pid=$OL_PINS_PID status=0 answer=() more=''
  [[ -n $pid ]] || return 0
  _ol_attempt_await "$pid" 900 || status=$?
  OL_PINS_PID=''
  ((status != 2)) || return 2
  mapfile -t answer <"$OUTLAST_STATE/pins.answer.$OUTLAST_ATTEMPT"
  case ${answer[0]:-} in
    same) ;;
    written) ol_ledger_add pins answer=written ;;
    differs)
      ((${#answer[@]} <= 6)) || more="; and $((${#answer[@]} - 6)) more"
      printf -v OUTLAST_WHY '%s; ' "${answer[@]:1:5}"
      # What to do comes first: the ledger cuts long texts.
      OUTLAST_WHY="what this run trains with has changed (if that is right: outlast resume $OUTLAST_RUN_DIR --accept-pins): ${OUTLAST_WHY%; }$more"
      return 1
      ;;
    *)
      ol_log_warn "what is pinned could not be compared"
      ol_ledger_add warned text="what is pinned could not be compared (pins.toml)"
      ;;
  esac
}
