# shellcheck shell=bash
# lib/classify.sh - an ending decided once more, from its record (lib/record.sh): `outlast classify`
#
# Functions
#   ol_classify RECORD     decide as the job did, by the same functions, and print what came out: `KEY TEXT`, a line each.
#                          Nothing is done, nobody is asked: scheduler and file systems answer what they answered then
#
# Prints   row NAME      the row that was the case            not NAME: WHY     a row before it that was not
#          class, evidence, fingerprint, blame                asks WORD         what the class asks for
#          rung WORD: WHY   nobody is named: what is tried (lib/ladder.sh)
#          guard NAME: COUNT of LIMIT                         then WORD         what follows; why TEXT, if a guard said so
#          was CLASS THEN what the job had decided            note TEXT         what could not be done again
# Reads    OUTLAST_PYTHON PYTHONPATH (to judge the log again); OUTLAST_STATE, an empty folder
# Needs    log, bounded, deadline, checkpoint, progress, ending, verdict, decide, ladder, nodes, guard, history, record, lease, py, ledger, badnodes
# Sourcing it defines the functions above and does nothing else.

# A record may come from anybody: only names that we write are taken, and a number only if it is one (Bash would compute
# what else it is given).
_ol_classify_load() { # RECORD
  local name value numbers words
  numbers=$(ol_record_numbers)
  words=$(ol_record_words)
  for name in $numbers; do
    printf -v "$name" '%s' 0 # a record of an older outlast
  done
  for name in $words OUTLAST_{STEP,FIRST_STEP,RESUME_STEP,LAUNCH_CODE}; do
    printf -v "$name" '%s' ''
  done
  OL_CLASSIFY_LEFT_S=0 OL_CLASSIFY_JOB_LEFT_S=0 OL_CLASSIFY_FULL='' OL_CLASSIFY_HF='' OL_CLASSIFY_BLAME='' OUTLAST_SIGNALLED=0
  OUTLAST_HOSTS=()
  while IFS='=' read -r name value; do
    if [[ " $words " == *" $name "* ]]; then
      printf -v "$name" '%s' "$value"
    elif [[ $name == hosts ]]; then
      read -ra OUTLAST_HOSTS <<<"$value"
    elif [[ $name == blame ]]; then
      OL_CLASSIFY_BLAME=$value
    elif [[ $value =~ ^[0-9]{1,12}$ ]]; then
      [[ " $numbers " != *" $name "* ]] || printf -v "$name" '%s' "$((10#$value))"
      case $name in
        left_s) OL_CLASSIFY_LEFT_S=$((10#$value)) ;;
        job_left_s) OL_CLASSIFY_JOB_LEFT_S=$((10#$value)) ;;
        shared_full) OL_CLASSIFY_FULL=$((10#$value)) ;;
        hf_finished) OL_CLASSIFY_HF=$((10#$value)) ;;
        signalled) OUTLAST_SIGNALLED=$((10#$value)) ;;
      esac
    fi
  done < <(head -q -c 65536 "$1/facts" "$1/answers" 2>/dev/null)
}

_ol_classify_state() { # RECORD
  local file
  for file in asked deadline dead dead.why suspect term hold; do
    [[ ! -e $1/state/$file ]] || head -c 4096 "$1/state/$file" >"$OUTLAST_STATE/$file"
  done
  head -c 20 "$1/state/durable_step" 2>/dev/null | grep -xE '[0-9]+' >"$OUTLAST_STATE/durable_step"
  head -c 400000 "$1/history.jsonl" >"$OUTLAST_STATE/history.jsonl" 2>/dev/null
  : >"$OUTLAST_STATE/events.jsonl"
  OUTLAST_LOG=$1/log OUTLAST_SAID=$1/said OL_CLASSIFY_RECORD=$1
  OUTLAST_RUN_DIR=$OUTLAST_STATE/no-run OUTLAST_VERSION=none OUTLAST_END_DATE='' OUTLAST_PARENT='' OUTLAST_STOP_REASON=''
  OUTLAST_CLASS='' OUTLAST_THEN='' OUTLAST_EVIDENCE='' OUTLAST_FINGERPRINT='' OUTLAST_LAUNCH_PID=1
  OUTLAST_NEXT_ID='' OUTLAST_SWAPS_NOW=0 OUTLAST_CRASH_PATTERNS=''
  IFS=, read -ra OUTLAST_SLOTS <<<"$OUTLAST_NODE_LIST"
}

# What asked the world outside then, answers now. Functions of ours, not commands, so that nothing else is different.
_ol_classify_stand_in() {
  ol_log_info() { :; }
  ol_log_warn() { :; }
  ol_ledger_add() { :; }
  ol_progress_look() { :; }
  ol_badnodes_add() { :; }
  ol_badnodes_known() { :; }
  ol_badnodes_worst() { printf '%s\n' "$OL_CLASSIFY_WORST"; }
  ol_sched_release() { return 1; }
  ol_sched_state() { [[ -n $OUTLAST_SCHED_SAYS ]] && printf '%s\n' "$OUTLAST_SCHED_SAYS"; }
  ol_sched_down_nodes() { [[ -z $OL_CLASSIFY_BLAME ]] || printf '%s\n' "${OL_CLASSIFY_BLAME// /$'\n'}"; }
  ol_deadline_left() { printf '%d\n' "$OL_CLASSIFY_LEFT_S"; }
  ol_deadline_job_left() { printf '%d\n' "$OL_CLASSIFY_JOB_LEFT_S"; }
  ol_checkpoint_complete() { head -c 65536 "$OL_CLASSIFY_RECORD/checkpoints" 2>/dev/null | grep -E '^[0-9]+ /'; }
  _ol_progress_hf_finished() { return "${OL_CLASSIFY_HF:-2}"; }
  _ol_ending_shared_is_full() { return "${OL_CLASSIFY_FULL:-124}"; }
  # A log that was cut may tell something else than the whole one did.
  ol_py_ask() { # SEC crash LOG WORDS...
    [[ -s $OL_CLASSIFY_RECORD/verdict ]] || return 1
    if [[ -e $OL_CLASSIFY_RECORD/log.cut ]]; then
      cat "$OL_CLASSIFY_RECORD/verdict"
    elif [[ -s $OL_CLASSIFY_RECORD/../../patterns.toml ]]; then # the run's own
      timeout 120 "$OUTLAST_PYTHON" -m outlast "${@:2}" --patterns "$OL_CLASSIFY_RECORD/../../patterns.toml"
    else
      timeout 120 "$OUTLAST_PYTHON" -m outlast "${@:2}"
    fi
  }
}

_ol_classify_guards() {
  local count
  if [[ -n $OUTLAST_FINGERPRINT ]]; then
    count=$(ol_history_same "$OUTLAST_FINGERPRINT" "$OUTLAST_STEP")
    printf 'guard same failure at this step: %d of %d\n' "$((count + 1))" "$OUTLAST_SAME_FAILURE"
  fi
  count=$(ol_history_stuck "$OUTLAST_DURABLE_STEP")
  printf 'guard jobs without a durable step beyond %d: %d of %d\n' "$OUTLAST_DURABLE_STEP" "$count" "$OUTLAST_STUCK_JOBS"
  printf 'guard attempts in this job: %d of %d\n' "$OUTLAST_ATTEMPT" "$OUTLAST_ATTEMPTS"
  ((OUTLAST_DELAY_S == 0)) || printf 'guard waits before the next try: %d s\n' "$OUTLAST_DELAY_S"
}

_ol_classify_told() { # KEY TEXT; one line, whatever a log has put into it
  [[ -z $2 ]] || printf '%s %s\n' "$1" "${2//[[:cntrl:]]/ }"
}

_ol_classify_print() {
  local row
  for row in "${OUTLAST_ENDING_ROWS[@]}"; do _ol_classify_told not "$row"; done
  _ol_classify_told row "${OUTLAST_ENDING_ROW:-signalled}"
  _ol_classify_told class "$OUTLAST_CLASS"
  _ol_classify_told evidence "$OUTLAST_EVIDENCE"
  _ol_classify_told fingerprint "$OUTLAST_FINGERPRINT"
  _ol_classify_told blame "${OUTLAST_BLAME[*]}"
  _ol_classify_told rung "${OUTLAST_RUNG:+$OUTLAST_RUNG: $OUTLAST_RUNG_WHY}"
  _ol_classify_told asks "$OUTLAST_ASKED_FOR"
  _ol_classify_guards
  _ol_classify_told why "${OUTLAST_WHY:-$OUTLAST_BECAUSE}"
  _ol_classify_told "then" "$OUTLAST_THEN"
  if [[ ! -s $OL_CLASSIFY_RECORD/verdict ]]; then
    _ol_classify_told note "the log was not judged then, so it is not judged now"
  elif [[ -e $OL_CLASSIFY_RECORD/log.cut ]]; then
    _ol_classify_told note "the log is kept in part: what was judged then is taken"
  fi
}

ol_classify() {
  _ol_classify_load "$1"
  _ol_classify_state "$1"
  OL_CLASSIFY_WORST=$OUTLAST_WORST
  _ol_classify_stand_in
  ol_verdict_reset
  OUTLAST_ENDING_ROWS=() OUTLAST_ENDING_ROW='' OL_ENDING_EARLY=0
  ((OUTLAST_SIGNALLED == 0)) || ol_ending_signalled
  ol_ending_attempt
  _ol_decide_think
  _ol_classify_print
}
