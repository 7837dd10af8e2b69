# shellcheck shell=bash
# lib/successor.sh - the next job of the chain
#
# Functions
#   ol_successor_submit DELAY_S   make sure that exactly one successor waits for this job's end. Nodes that are out of
#                              use in this job are excluded, beside the user's own. 0 done; 1 refused for good (OUTLAST_WHY);
#                              2 no answer until the time was up; 3 the one that waited was taken away;
#                              4 the run is another job's by now
#   ol_successor_exclude       the same nodes, of a successor that waits already
#   ol_successor_remove        cancel the successor that our ledger says we made; a person wants no further job
#   ol_successor_command       print what a person types to go on
#
# Sets     OUTLAST_NEXT_ID (its id), OUTLAST_WHY
# Reads    OUTLAST_RUN OUTLAST_RUN_DIR OUTLAST_GENERATION OUTLAST_JOB_ID OUTLAST_EXCLUDE OUTLAST_DROPPED OUTLAST_PROJECT
# Needs    log, bounded, ledger, history, deadline, run, lease, badnodes
# Sourcing it defines the functions above and does nothing else.

# Unique in the run, so that a submit whose answer was lost is found again.
_ol_successor_name() { printf '%s.%d\n' "$OUTLAST_RUN" "$((10#$OUTLAST_GENERATION + 1))"; }

# A checkout's verbs are on nobody's PATH; those of an installed outlast are.
ol_successor_command() {
  local outlast=outlast
  [[ -z ${OUTLAST_ROOT:-} || $OUTLAST_ROOT == */_tree ]] || printf -v outlast '%q' "$OUTLAST_ROOT/bin/outlast"
  printf '%s resume %q\n' "$outlast" "$OUTLAST_RUN_DIR"
}

# The user's own, those out of use in this job, then the bad nodes, as many as the list takes. One unknown name makes sbatch
# refuse the whole job, so those are not in it.
_ol_successor_leaves_out() { # [--without-bad]
  local wanted=() known listed=''
  [[ ${1:-} == --without-bad ]] || listed=$(ol_badnodes_exclude) || ol_log_warn "the bad nodes cannot be read"
  IFS=', ' read -ra wanted <<<"${OUTLAST_EXCLUDE:-} ${OUTLAST_DROPPED:-} ${listed//$'\n'/ }"
  ((${#wanted[@]} > 0)) || return 0
  known=$(ol_sched_known_nodes "${wanted[@]}") || {
    ol_log_warn "cannot ask which nodes exist: nothing is excluded"
    return 0
  }
  known=$(awk '!seen[$0]++' <<<"$known" | head -n "${OUTLAST_EXCLUDE_CAP:-200}" | sort)
  printf '%s\n' "${known//$'\n'/,}"
}

# Print a successor that is already waiting: this job's own, or one that a job before it made (a requeued
# parent runs again while its child still waits). Status 1: none is; 2: nobody can say.
_ol_successor_waiting() {
  local id state name status=0 none=1
  name=$(_ol_successor_name)
  id=$(ol_sched_find "$name") || status=$?
  if ((status == 0)); then
    printf '%s\n' "$id"
    return 0
  fi
  ((status != 2)) || none=2
  for id in $(ol_history_successors); do
    status=0
    state=$(ol_sched_state "$id") || status=$?
    ((status != 2)) || none=2
    [[ $status == 0 && $state == state=pending* ]] || continue
    printf '%s\n' "$id"
    return 0
  done
  return "$none"
}

# What the successors run. The run's own copy, else (the shared file system does not answer) the one on this node.
_ol_successor_script() {
  local copy=$OUTLAST_STATE/next.sh
  # shellcheck disable=SC2016 # expanded by the child
  if ol_bounded 10 bash -c '[[ -O $1 ]] && cp "$1" "$2"' _ "$OUTLAST_RUN_DIR/job.sh" "$copy"; then
    printf '%s\n' "$copy"
  else
    printf '%s\n' "$OUTLAST_STATE/job.sh"
  fi
}

_ol_successor_try() { # SCRIPT DELAY_S EXCLUDE
  local name answer status=0
  name=$(_ol_successor_name)
  answer=$(ol_sched_submit "$1" "$name" depend="$OUTLAST_JOB_ID" delay_s="$2" exclude="$3" \
    output="$OUTLAST_RUN_DIR/logs/%j.out" dir="$OUTLAST_PROJECT" \
    shell="$OUTLAST_RUN_DIR/tool/shell" 2>"$OUTLAST_STATE/refused") || status=$?
  if ((status == 0)); then
    OUTLAST_NEXT_ID=$answer
  elif ((status == 1)); then
    OUTLAST_WHY="the scheduler refused the next job: $(head -c 300 "$OUTLAST_STATE/refused")"
  fi
  return "$status"
}

_ol_successor_note() {
  ol_ledger_add submitted successor="$OUTLAST_NEXT_ID" name="$(_ol_successor_name)" by="job $OUTLAST_JOB_ID"
  ol_log_info "job $OUTLAST_NEXT_ID follows this one"
}

# An insurance waits for hours. Whoever takes it away means the run, and no other job is put in its place.
_ol_successor_is_gone() { # ID
  local state status=0
  state=$(ol_sched_state "$1") || status=$?
  [[ $status == 1 || $state == state=ended* ]]
}

# A submit that seems to fail may have worked: no try without a clear no before it.
ol_successor_submit() {
  local delay_s=$1 script exclude own wait_s=5 status left_s
  if [[ -n ${OUTLAST_NEXT_ID:-} ]]; then
    _ol_successor_is_gone "$OUTLAST_NEXT_ID" || return 0
    OUTLAST_WHY="job $OUTLAST_NEXT_ID, which was to follow, is gone: somebody cancelled it; to go on: $(ol_successor_command)"
    return 3
  fi
  script=$(_ol_successor_script)
  exclude=$(_ol_successor_leaves_out)
  while :; do
    status=0
    OUTLAST_NEXT_ID=$(_ol_successor_waiting) || status=$?
    if ((status == 1)); then
      status=0
      _ol_successor_try "$script" "$delay_s" "$exclude" || status=$?
      # So few nodes may be left that no job fits: better on a bad one than not at all.
      if ((status == 1)) && own=$(_ol_successor_leaves_out --without-bad) && [[ $own != "$exclude" ]]; then
        ol_log_warn "$OUTLAST_WHY; trying without the list of bad nodes"
        status=0
        _ol_successor_try "$script" "$delay_s" "$own" || status=$?
      fi
    fi
    case $status in
      0)
        _ol_successor_note
        return 0
        ;;
      1) return 1 ;;
    esac
    left_s=$(ol_deadline_job_left)
    OUTLAST_WHY="the scheduler does not answer; to go on: $(ol_successor_command)"
    ol_log_warn "$OUTLAST_WHY (trying again, $left_s s left)"
    ((left_s > wait_s)) && [[ ! -e $OUTLAST_STATE/term ]] || return 2
    ol_run_pause "$wait_s" || return 2
    # Who cannot reach the scheduler may have been given up by it, and runs elsewhere by now.
    if ol_lease_is_lost; then
      OUTLAST_WHY="a newer lease than $OUTLAST_GENERATION: the run is another job's"
      return 4
    fi
    wait_s=$((wait_s < 60 ? wait_s * 2 : 60))
  done
}

ol_successor_exclude() {
  local list status=0
  [[ -n ${OUTLAST_NEXT_ID:-} ]] || return 0
  list=$(_ol_successor_leaves_out)
  [[ -n $list ]] || return 0
  ol_sched_exclude "$OUTLAST_NEXT_ID" "$list" || status=$?
  ((status != 2)) || ol_log_warn "job $OUTLAST_NEXT_ID could not be told to leave out $list"
}

ol_successor_remove() {
  local id state ids=()
  for id in ${OUTLAST_NEXT_ID:-} $(ol_history_successors); do
    state=$(ol_sched_state "$id") || continue
    [[ $state != state=pending* || " ${ids[*]} " == *" $id "* ]] || ids+=("$id")
  done
  ((${#ids[@]} > 0)) || return 0
  ol_sched_cancel "${ids[@]}" && ol_log_info "successor ${ids[*]} removed"
  OUTLAST_NEXT_ID=''
}
