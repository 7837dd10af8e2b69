# shellcheck shell=bash
# lib/hang.sh - the watchdog: does the training still make progress? (docs/watchdog.md)
#
# Functions
#   ol_hang_begin      a launch is being watched from now on
#   ol_hang_look       one look, once a second while ranks run, behind ol_progress_look: of a hang the stacks are written down
#                      (lib/stacks.sh), then the training is asked to stop with reason `hang`
#   ol_hang_end        the launch has ended: what was learned of its cadence goes to the ledger
#
# Progress is a new step, a moving evaluation, a checkpoint whose files move or a touched heartbeat file; words alone are
# none. Ages count seconds in which we have watched: neither a machine that slept nor a slow look makes an alarm.
#
# Files    OUTLAST_STATE/hang_files   what the last look at checkpoints and heartbeat saw: `NUMBER HALF-WRITTEN SUM HEARTBEAT`
# Sets     OUTLAST_HANG_SAYS (the evidence) OUTLAST_HANG_PHASE
# Reads    OUTLAST_WATCHDOG OUTLAST_HEARTBEAT OUTLAST_STEP OUTLAST_RESUME_STEP OUTLAST_MARK OUTLAST_LOG_READ OUTLAST_CKPT_DIR OUTLAST_STORAGE
# Needs    log, bounded, ledger, history, cadence, stacks, stop
# Sourcing it defines the functions above and does nothing else.

ol_hang_begin() {
  local known
  OUTLAST_HANG_SAYS='' OUTLAST_HANG_PHASE=''
  [[ $OUTLAST_WATCHDOG == 1 ]] || return 0
  if [[ -z ${OL_HANG_T:-} ]]; then
    OL_HANG_T=0
    known=$(ol_history_cadence)
    # shellcheck disable=SC2086 # numbers, as words
    ol_cadence_recall $known
  fi
  rm -f "$OUTLAST_STATE/hang_files"
  printf -v OL_HANG_WALL_S '%(%s)T' -1
  OL_HANG_READ=0 OL_HANG_STEP='' OL_HANG_FOUND_T='' OL_HANG_ASKED_T=0 OL_HANG_ASKER='' OL_HANG_ANSWER=0
  OL_HANG_HALF='' OL_HANG_STALE='' OL_HANG_SUM='' OL_HANG_SUM_STEP=none OL_HANG_BEAT=''
  ol_cadence_begin "$OL_HANG_T" "${OUTLAST_RESUME_STEP:-}"
}

# Our clock. A minute that is missing was a sleep of the machine or of us; the trainer needs time to find itself again.
_ol_hang_tick() {
  local now_s passed_s
  printf -v now_s '%(%s)T' -1
  passed_s=$((now_s - OL_HANG_WALL_S))
  OL_HANG_WALL_S=$now_s
  ((passed_s > 0)) || passed_s=0
  OL_HANG_T=$((OL_HANG_T + (passed_s < 5 ? passed_s : 5)))
  ((passed_s > 60)) || return 0
  ol_log_info "watched nothing for $passed_s s; the watchdog counts anew"
  ol_cadence_forgive "$OL_HANG_T"
}

# What a child sees: a checkpoint without its last file, the sum of what the newest entries are, the heartbeat's time. What
# the sidecar writes there is not the trainer's.
_ol_hang_files() { # DIR PREFIX COMPLETE HEARTBEAT
  local path half=- sum beat=-
  if [[ -n $3 ]]; then
    for path in "$1/$2"[0-9]*; do
      [[ -L $path || ! -d $path || -e $path/$3 ]] || half=${path##*/}
    done
  fi
  # shellcheck disable=SC2016 # expanded by the child
  sum=$(find "$1" -mindepth 1 -maxdepth 1 ! -name '.*' -printf '%T@ %p\0' 2>/dev/null | sort -zrn | head -zn 3 | cut -zd' ' -f2- |
    xargs -0r sh -c 'find "$@" -maxdepth 3 ! -name "MANIFEST.json*" ! -type d -printf "%T@ %s %P\n"' _ 2>/dev/null | head -n 5000 | sort | cksum)
  [[ -z $4 ]] || beat=$(stat -c %.Y "$4" 2>/dev/null) || beat=-
  printf '%s %s %s\n' "${half//[[:space:]]/_}" "${sum// /.}" "$beat"
}

_ol_hang_ask() { # NUMBER
  local answer args=("$OUTLAST_CKPT_DIR" "$OUTLAST_CKPT_PREFIX" "$OUTLAST_CKPT_COMPLETE" "${OUTLAST_HEARTBEAT//'{ckpt_dir}'/"$OUTLAST_CKPT_DIR"}")
  answer=$(ol_shared_print bash -c "$(declare -f _ol_hang_files); _ol_hang_files \"\$@\"" _ "${args[@]}") || answer='? ? -'
  printf '%d %s\n' "$1" "$answer" >"$OUTLAST_STATE/hang_files.new" && mv -f "$OUTLAST_STATE/hang_files.new" "$OUTLAST_STATE/hang_files"
}

# Asked only while no step comes, and on the shared file system once a minute: a look at it is not free.
_ol_hang_ask_now_and_then() {
  local every_s=10
  [[ $OUTLAST_STORAGE == local ]] || every_s=60
  if [[ -z $OUTLAST_HEARTBEAT ]]; then
    ((OL_HANG_T - OL_CADENCE_STEP_T >= every_s)) && [[ $OL_CADENCE_PHASE != unknown ]] || return 0
  fi
  ((OL_HANG_T - OL_HANG_ASKED_T >= every_s)) || return 0
  [[ -z $OL_HANG_ASKER ]] || ! kill -0 "$OL_HANG_ASKER" 2>/dev/null || return 0
  OL_HANG_ASKED_T=$OL_HANG_T
  (
    trap - TERM USR1 EXIT
    _ol_hang_ask "$OL_HANG_T"
  ) &
  OL_HANG_ASKER=$!
}

_ol_hang_answer() {
  local number='' half sum beat
  read -r number half sum beat 2>/dev/null <"$OUTLAST_STATE/hang_files"
  [[ -n $number && $number != "$OL_HANG_ANSWER" ]] || return 0
  OL_HANG_ANSWER=$number
  if [[ $beat != - && $beat != "$OL_HANG_BEAT" ]]; then
    ol_cadence_sign "$OL_HANG_T" beat
    OL_HANG_BEAT=$beat
  fi
  # Files that have changed since the last look tell something only if no step was made meanwhile, and a checkpoint that was
  # half there when steps were made is no hindrance to them. A file system that is silent stops whoever saves.
  if [[ $sum != "$OL_HANG_SUM" && $OUTLAST_STEP == "$OL_HANG_SUM_STEP" ]]; then
    ol_cadence_sign "$OL_HANG_T" save "$sum"
  elif [[ $half != - && $half != "$OL_HANG_STALE" && $OL_CADENCE_PHASE != save ]]; then
    ol_cadence_sign "$OL_HANG_T" save "$half"
  fi
  OL_HANG_HALF=$half OL_HANG_SUM=$sum OL_HANG_SUM_STEP=$OUTLAST_STEP
}

_ol_hang_feed() {
  if ((OUTLAST_LOG_READ > OL_HANG_READ)); then
    OL_HANG_READ=$OUTLAST_LOG_READ
    ol_cadence_sign "$OL_HANG_T" log
  fi
  if [[ -n $OUTLAST_STEP && $OUTLAST_STEP != "$OL_HANG_STEP" ]]; then
    OL_HANG_STEP=$OUTLAST_STEP OL_HANG_STALE=$OL_HANG_HALF
    ol_cadence_step "$OL_HANG_T" "$OUTLAST_STEP"
  fi
  [[ -z $OUTLAST_MARK ]] || ol_cadence_sign "$OL_HANG_T" "${OUTLAST_MARK%% *}" "${OUTLAST_MARK#* }"
  _ol_hang_answer
}

_ol_hang_found() {
  OL_HANG_FOUND_T=$OL_HANG_T OUTLAST_HANG_PHASE=$OL_CADENCE_PHASE
  OUTLAST_HANG_SAYS="no progress for $OL_CADENCE_AGE_S s in phase $OL_CADENCE_PHASE, limit $OL_CADENCE_LIMIT_S s"
  [[ -z $OUTLAST_STEP ]] || OUTLAST_HANG_SAYS+="; last step $OUTLAST_STEP"
  ol_log_warn "$OUTLAST_HANG_SAYS: taking the stacks"
  ol_ledger_add hang phase="$OL_CADENCE_PHASE" age_s:="$OL_CADENCE_AGE_S" limit_s:="$OL_CADENCE_LIMIT_S" step:="$OUTLAST_STEP"
  ol_cadence_hung
  ol_stacks_start
}

# The stacks take seconds; who makes a step meanwhile is left alone, and remembered.
_ol_hang_confirm() {
  if ((OL_CADENCE_T > OL_HANG_FOUND_T)); then
    OL_HANG_FOUND_T=''
    ol_stacks_stop
    ol_log_warn "it goes on after all"
    ol_ledger_add warned text="the watchdog was mistaken: it goes on ($OUTLAST_HANG_SAYS)"
  elif ol_stacks_are_taken; then
    ol_stop_ask hang
  fi
}

ol_hang_look() {
  [[ $OUTLAST_WATCHDOG == 1 ]] || return 0
  _ol_hang_tick
  _ol_hang_feed
  [[ ! -e $OUTLAST_STATE/asked ]] || return 0
  if ((OL_HANG_T % 3600 == 3599)); then _ol_hang_note; fi
  _ol_hang_ask_now_and_then
  if [[ -n $OL_HANG_FOUND_T ]]; then
    _ol_hang_confirm
  elif ol_cadence_judge "$OL_HANG_T"; then
    _ol_hang_found
  fi
}

_ol_hang_note() {
  local fields=()
  mapfile -t fields < <(ol_cadence_learned)
  ((${#fields[@]} == 0)) || ol_ledger_add cadence "${fields[@]}"
}

ol_hang_end() {
  [[ $OUTLAST_WATCHDOG == 1 ]] || return 0
  ol_stacks_stop
  _ol_hang_note
}
