# shellcheck shell=bash
# lib/record.sh - what an ending was decided from, kept for `outlast classify` (docs/classify.md)
#
# Functions
#   ol_record_begin        before the decision: what it changes itself
#   ol_record_keep         write down what the decision just made was made from, on this node. Not when all is done
#   ol_record_carry        bring it to RUN/records/ (the courier does), and keep the newest ones
#   ol_record_numbers      print the names of the variables in it that are numbers
#   ol_record_words        print those of the others
#
# Files    RUN/records/JOB.RESTART.ATTEMPT/   facts (NAME=VALUE), log, said, verdict, checkpoints, history.jsonl, ended.json,
#          answers (of the scheduler and the file system), state/
# Reads    what these functions print; OUTLAST_LOG OUTLAST_SAID OUTLAST_SCHED_SAYS
# Needs    log, bounded, deadline, checkpoint, progress, stop
# Sourcing it defines the functions above and does nothing else.

ol_record_numbers() {
  echo OUTLAST_{RESTART,ATTEMPT,ATTEMPTS,NODES,RANKS_PER_NODE,CHAIN,LAUNCH_CODE,RAN_S,STEP,FIRST_STEP,STEP_ZERO_COUNTS} \
    OUTLAST_{TARGET_STEP,RESUME_STEP,DURABLE_AT_START,STARTUP_S,CKPT_INTERVAL_S,MARGIN_S,SAME_FAILURE,STUCK_JOBS,RAPID_S} \
    OUTLAST_{RAPID_WAIT_S,MAX_JOBS,MAX_NODE_HOURS,STARTED_S,WALLTIME_S,SWAPPED,SWAPS,RECOVERY_S,LOST_S}
}

ol_record_words() {
  echo OUTLAST_{RUN,JOB_ID,GENERATION,SCHEDULER,NODE_LIST,SUCCESSOR,STEP_REGEX,FINISH_REGEX,RESUME_FROM,CKPT_PREFIX,SCHED_SAYS,DROPPED,MOVED,WORST,HANG_SAYS,HANG_PHASE}
}

ol_record_begin() { OL_RECORD_DROPPED=${OUTLAST_DROPPED:-} OL_RECORD_SWAPPED=${OUTLAST_SWAPPED:-0}; }

_ol_record_facts() {
  local name value left_s OUTLAST_DROPPED=$OL_RECORD_DROPPED OUTLAST_SWAPPED=$OL_RECORD_SWAPPED
  for name in $(
    ol_record_numbers
    ol_record_words
  ); do
    value=${!name:-}
    printf '%s=%s\n' "$name" "${value//[$'\n\001']/ }"
  done
  printf 'hosts=%s\n' "${OUTLAST_HOSTS[*]}"
  left_s=$(ol_deadline_left)
  printf 'left_s=%s\n' "$left_s"
  left_s=$(ol_deadline_job_left)
  printf 'job_left_s=%s\n' "$left_s"
}

# The start and the end of a log: a traceback is in one of them.
_ol_record_log() { # FROM TO HEAD TAIL
  local size
  size=$(stat -c %s "$1" 2>/dev/null) || return 0
  if ((size <= $3 + $4)); then
    cp "$1" "$2"
  else
    { head -c "$3" "$1" && printf '\n[outlast: %d bytes left out]\n' "$((size - $3 - $4))" && tail -c "$4" "$1"; } >"$2"
    : >"$2.cut"
  fi
}

# The questions that the ledger answers, without this ending itself and what followed it.
_ol_record_history() {
  local mine="\"job\":\"$OUTLAST_JOB_ID\",\"restart\":$OUTLAST_RESTART,\"attempt\":$OUTLAST_ATTEMPT,\"seq\":[0-9]+,\"event\":\"ended\""
  cat "$OUTLAST_STATE/history.jsonl" "$OUTLAST_STATE/events.jsonl" 2>/dev/null | sed -E "/$mine/,\$d" |
    grep -vE '"event":"(progress|checkpoint_local|staged)"' | tail -n 300
}

_ol_record_answers() {
  local finished='' newest
  newest=$(tail -n 1 checkpoints)
  [[ -z $newest ]] || {
    finished=0
    _ol_progress_hf_finished "${newest#* }" || finished=$?
  }
  printf 'shared_full=%s\nhf_finished=%s\nblame=%s\nsignalled=%s\n' "${OUTLAST_SHARED_FULL:-}" "$finished" "${OUTLAST_BLAME[*]}" "${OUTLAST_SIGNALLED:-0}"
}

ol_record_keep() {
  local id=$OUTLAST_JOB_ID.$OUTLAST_RESTART.$OUTLAST_ATTEMPT dir file
  [[ $OUTLAST_ATTEMPT != 0 && $OUTLAST_CLASS != "done" && -s ${OUTLAST_LOG:-} ]] || return 0
  dir=$OUTLAST_STATE/records/$id
  mkdir -p "$dir.new/state" || return 0
  (
    cd "$dir.new" || exit
    _ol_record_log "$OUTLAST_LOG" log 65536 196608
    _ol_record_log "$OUTLAST_SAID" said 16384 49152
    [[ ! -s $OUTLAST_STATE/verdict ]] || cp "$OUTLAST_STATE/verdict" verdict
    for file in asked deadline dead dead.why suspect term durable_step hold; do
      [[ ! -e $OUTLAST_STATE/$file ]] || cp "$OUTLAST_STATE/$file" state/
    done
    ol_checkpoint_complete 0 >checkpoints
    _ol_record_history >history.jsonl
    grep '"event":"ended"' "$OUTLAST_STATE/events.jsonl" | tail -n 1 >ended.json
    _ol_record_answers >answers
    _ol_record_facts >facts
  ) 2>/dev/null
  rm -rf "$dir"
  mv "$dir.new" "$dir"
}

# What a record of the last launches needs is some hundred kilobytes.
ol_record_carry() {
  local dir
  for dir in "$OUTLAST_STATE"/records/*; do
    [[ -d $dir && $dir != *.new ]] || continue
    # shellcheck disable=SC2016 # expanded by the child
    ol_shared bash -c 'umask 027; name=${1##*/}; mkdir -p "$2/records" && cd "$2/records" || exit
      rm -rf ".$name" && cp -r "$1" ".$name" && rm -rf "$name" && mv ".$name" "$name" || exit
      ls -t | tail -n +11 | while read -r old; do [[ ! -e $old/facts ]] || rm -rf "$old"; done' _ "$dir" "$OUTLAST_RUN_DIR" || return 1
    rm -rf "$dir"
  done
}
