# shellcheck shell=bash
# lib/cadence.sh - how a trainer moves, and how long it may stand still: phases, and limits learned from the run
#
# T is whole seconds of a clock that only the caller knows: lib/hang.sh counts seconds in which it has watched, the bench
# simulates months. Nothing here starts a process or looks at a file.
#
# Functions
#   ol_cadence_recall USUAL LONGEST SEEN EVAL SAVE START RESUME HANGS STEP   what earlier jobs learned (no words: nothing); once a job
#   ol_cadence_begin T [STEP]   a launch, from the checkpoint of that step or fresh; what was learned before stays
#   ol_cadence_step T N         the log has named step N
#   ol_cadence_sign T WHAT [N]  eval, save: such a phase has begun, and with another N it has moved; beat: the heartbeat file
#                               was touched; log: the trainer has written anything
#   ol_cadence_forgive T        time has passed in which nobody could move: all ages begin anew
#   ol_cadence_judge T          sets OL_CADENCE_PHASE OL_CADENCE_AGE_S OL_CADENCE_LIMIT_S; 0: it hangs
#   ol_cadence_hung             it did: a second time at the same step may be no hang, and is waited for longer
#   ol_cadence_learned          print KEY:=NUMBER fields for the ledger; 1: nothing is known yet
#
# phases: start (no step yet), unknown (nobody has ever seen the first step of such a start: only silence counts), steps, eval, save, end (all
# steps are made). A limit is a multiple of what the run itself has shown; docs/watchdog.md says why these numbers.
# Reads    OUTLAST_IDLE_S OUTLAST_START_LIMIT_S OUTLAST_EVAL_LIMIT_S OUTLAST_SAVE_LIMIT_S (0: learned) OUTLAST_TARGET_STEP
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_cadence_recall() {
  OL_CADENCE_COUNT=() OL_CADENCE_N=0 OL_CADENCE_Q_S=${1:-0} OL_CADENCE_KNOWN_Q_S=${1:-0}
  OL_CADENCE_LONG_S=0 OL_CADENCE_LONG_BEFORE_S=${2:-0} OL_CADENCE_SEEN_S=${3:-0}
  OL_CADENCE_EVAL_S=${4:-0} OL_CADENCE_SAVE_S=${5:-0} OL_CADENCE_START_S=${6:-0} OL_CADENCE_RESUME_S=${7:-0}
  OL_CADENCE_HANGS=${8:-0} OL_CADENCE_HANG_STEP=${9:-0}
}

ol_cadence_begin() {
  OL_CADENCE_PHASE=start OL_CADENCE_STEP='' OL_CADENCE_WORD='' OL_CADENCE_AGE_S=0 OL_CADENCE_LIMIT_S=0
  OL_CADENCE_BEGAN_T=$1 OL_CADENCE_ERA_T=$1 OL_CADENCE_FROM=${2:-}
  ol_cadence_forgive "$1"
}

ol_cadence_forgive() { OL_CADENCE_T=$1 OL_CADENCE_STEP_T=$1 OL_CADENCE_LOG_T=$1; }

ol_cadence_step() {
  local gap_s=$(($1 - OL_CADENCE_STEP_T))
  [[ $2 != "$OL_CADENCE_STEP" ]] || return 0
  if [[ -z $OL_CADENCE_STEP ]]; then
    gap_s=$(($1 > OL_CADENCE_BEGAN_T ? $1 - OL_CADENCE_BEGAN_T : 1)) # 0 would be: nobody has seen one
    if [[ -n $OL_CADENCE_FROM ]]; then
      ((gap_s <= OL_CADENCE_RESUME_S)) || OL_CADENCE_RESUME_S=$gap_s
    else
      ((gap_s <= OL_CADENCE_START_S)) || OL_CADENCE_START_S=$gap_s
    fi
  elif [[ $OL_CADENCE_PHASE == eval ]]; then
    ((gap_s <= OL_CADENCE_EVAL_S)) || OL_CADENCE_EVAL_S=$gap_s
  elif [[ $OL_CADENCE_PHASE == save ]]; then
    ((gap_s <= OL_CADENCE_SAVE_S)) || OL_CADENCE_SAVE_S=$gap_s
  else
    _ol_cadence_learn "$1" "$gap_s"
  fi
  OL_CADENCE_PHASE=steps OL_CADENCE_WORD='' OL_CADENCE_STEP=$2 OL_CADENCE_STEP_T=$1 OL_CADENCE_T=$1
  # It has passed the step at which it hung: the limit is what it was.
  ((OL_CADENCE_HANGS == 0 || $2 <= OL_CADENCE_HANG_STEP)) || OL_CADENCE_HANGS=0
  [[ $OUTLAST_TARGET_STEP == 0 ]] || (($2 < OUTLAST_TARGET_STEP)) || OL_CADENCE_PHASE=end
}

# Gaps are counted by size, four sizes to each doubling. The longest is that of the last eight to sixteen hours: a compile in the
# middle is forgotten, an evaluation that the log does not tell is not.
_ol_cadence_learn() { # T GAP_S
  local size=$2 shift_=0 all=0 at
  OL_CADENCE_SEEN_S=$((OL_CADENCE_SEEN_S + $2))
  if (($1 - OL_CADENCE_ERA_T > 28800)); then
    OL_CADENCE_LONG_BEFORE_S=$OL_CADENCE_LONG_S OL_CADENCE_LONG_S=0 OL_CADENCE_ERA_T=$1
  fi
  (($2 <= OL_CADENCE_LONG_S)) || OL_CADENCE_LONG_S=$2
  while ((size >= 8)); do
    size=$((size / 2)) shift_=$((shift_ + 1))
  done
  size=$((size + shift_ * 4))
  OL_CADENCE_COUNT[size]=$((${OL_CADENCE_COUNT[size]:-0} + 1))
  OL_CADENCE_N=$((OL_CADENCE_N + 1))
  ((OL_CADENCE_N == 20 || OL_CADENCE_N % 50 == 0)) || return 0
  for at in "${!OL_CADENCE_COUNT[@]}"; do # in order of size: below whom are 99 of 100?
    all=$((all + OL_CADENCE_COUNT[at]))
    ((all * 100 < OL_CADENCE_N * 99)) || break
  done
  OL_CADENCE_Q_S=$((at < 8 ? at : ((at % 4 + 5) << (at / 4 - 1)) - 1))
  ((OL_CADENCE_N >= 4000)) || return 0
  OL_CADENCE_N=0 # what is old counts half
  for at in "${!OL_CADENCE_COUNT[@]}"; do
    OL_CADENCE_COUNT[at]=$((OL_CADENCE_COUNT[at] / 2))
    OL_CADENCE_N=$((OL_CADENCE_N + OL_CADENCE_COUNT[at]))
  done
}

ol_cadence_sign() {
  case $2 in
    log) OL_CADENCE_LOG_T=$1 ;;
    beat) OL_CADENCE_T=$1 ;;
    *)
      # Words that only repeat themselves are no sign of life: trackers repeat theirs for ever.
      [[ $OL_CADENCE_WORD != "$2 ${3:-}" ]] || return 0
      OL_CADENCE_WORD="$2 ${3:-}" OL_CADENCE_T=$1
      [[ $OL_CADENCE_PHASE != steps && $OL_CADENCE_PHASE != eval && $OL_CADENCE_PHASE != save ]] || OL_CADENCE_PHASE=$2
      ;;
  esac
}

_ol_cadence_limit() { # SET_S LEARNED_S TIMES FLOOR_S CEILING_S
  if (($1 > 0)); then
    OL_CADENCE_LIMIT_S=$1
  elif (($2 == 0)); then
    OL_CADENCE_LIMIT_S=1800
  else
    OL_CADENCE_LIMIT_S=$(($2 * $3))
    ((OL_CADENCE_LIMIT_S > $4)) || OL_CADENCE_LIMIT_S=$4
    ((OL_CADENCE_LIMIT_S < $5)) || OL_CADENCE_LIMIT_S=$5
  fi
}

# It comes down from half an hour as the run is watched: what happens once an hour is seen by then.
_ol_cadence_steps_limit() {
  local long_s=$OL_CADENCE_LONG_S q_s=$OL_CADENCE_Q_S limit_s unseen_s=$(((3600 - OL_CADENCE_SEEN_S) / 2)) high_s=1800
  ((OL_CADENCE_LONG_BEFORE_S <= long_s)) || long_s=$OL_CADENCE_LONG_BEFORE_S
  ((OL_CADENCE_N >= 100 || OL_CADENCE_KNOWN_Q_S <= q_s)) || q_s=$OL_CADENCE_KNOWN_Q_S
  if ((OUTLAST_IDLE_S > 0)); then
    limit_s=$OUTLAST_IDLE_S
  elif ((OL_CADENCE_N < 20 && OL_CADENCE_KNOWN_Q_S == 0)); then
    limit_s=$((long_s * 3 > 1800 ? long_s * 3 : 1800))
  else
    limit_s=$((q_s * 5 > long_s * 3 ? q_s * 5 : long_s * 3))
    ((limit_s > unseen_s)) || limit_s=$unseen_s
    ((limit_s > 300)) || limit_s=300
    ((q_s * 2 <= high_s)) || high_s=$((q_s * 2))
    ((long_s * 3 / 2 <= high_s)) || high_s=$((long_s * 3 / 2))
    ((limit_s < high_s)) || limit_s=$high_s
  fi
  OL_CADENCE_LIMIT_S=$limit_s
}

ol_cadence_judge() {
  local since=$OL_CADENCE_T start_s=$OL_CADENCE_START_S
  case $OL_CADENCE_PHASE in
    start | unknown)
      # That no step comes means something only where steps can be seen; and a checkpoint to load or data to skip takes what
      # no fresh start tells.
      [[ -z $OL_CADENCE_FROM ]] || start_s=$OL_CADENCE_RESUME_S
      if ((start_s > 0 || OUTLAST_START_LIMIT_S > 0)); then
        OL_CADENCE_PHASE=start
        _ol_cadence_limit "$OUTLAST_START_LIMIT_S" "$start_s" 5 900 14400
      else
        OL_CADENCE_PHASE=unknown OL_CADENCE_LIMIT_S=1800
        ((OL_CADENCE_LOG_T <= since)) || since=$OL_CADENCE_LOG_T
      fi
      ;;
    eval) _ol_cadence_limit "$OUTLAST_EVAL_LIMIT_S" "$OL_CADENCE_EVAL_S" 4 600 14400 ;;
    save) _ol_cadence_limit "$OUTLAST_SAVE_LIMIT_S" "$OL_CADENCE_SAVE_S" 4 900 14400 ;;
    end)
      _ol_cadence_limit "$OUTLAST_SAVE_LIMIT_S" "$OL_CADENCE_SAVE_S" 4 1800 14400
      ((OL_CADENCE_LOG_T <= since)) || since=$OL_CADENCE_LOG_T
      ;;
    *) _ol_cadence_steps_limit ;;
  esac
  OL_CADENCE_LIMIT_S=$((OL_CADENCE_LIMIT_S << (OL_CADENCE_HANGS < 3 ? OL_CADENCE_HANGS : 3)))
  OL_CADENCE_AGE_S=$(($1 - since))
  ((OL_CADENCE_AGE_S > OL_CADENCE_LIMIT_S))
}

ol_cadence_hung() {
  local step=${OL_CADENCE_STEP:-0}
  [[ $step == "$OL_CADENCE_HANG_STEP" ]] || OL_CADENCE_HANGS=0
  OL_CADENCE_HANGS=$((OL_CADENCE_HANGS + 1)) OL_CADENCE_HANG_STEP=$step
}

ol_cadence_learned() {
  local q_s=$OL_CADENCE_Q_S
  local long_s=$((OL_CADENCE_LONG_S > OL_CADENCE_LONG_BEFORE_S ? OL_CADENCE_LONG_S : OL_CADENCE_LONG_BEFORE_S))
  ((OL_CADENCE_START_S > 0 || OL_CADENCE_RESUME_S > 0)) || return 1
  # Fewer than 20 gaps say little of what is usual.
  ((OL_CADENCE_N >= 20 || OL_CADENCE_KNOWN_Q_S > 0)) || q_s=0
  printf '%s:=%d\n' usual_s "$q_s" longest_s "$long_s" seen_s "$OL_CADENCE_SEEN_S" eval_s "$OL_CADENCE_EVAL_S" \
    save_s "$OL_CADENCE_SAVE_S" start_s "$OL_CADENCE_START_S" resume_s "$OL_CADENCE_RESUME_S"
}
