# shellcheck shell=bash
# lib/ending.sh - how did it end? The first row that applies; the evidence is kept (docs/endings.md)
#
# Functions; both set OUTLAST_CLASS, OUTLAST_EVIDENCE and OUTLAST_FINGERPRINT
#   ol_ending_signalled    the job or its ranks got TERM from outside: rows that the scheduler decides
#   ol_ending_attempt      an attempt has ended
#   ol_ending_nodes        print the nodes that the launcher or the scheduler call dead, one a line
#
# An exit code alone proves nothing. A question without an answer is unknown, never no.
# Reads    OUTLAST_HANG_SAYS OUTLAST_HANG_PHASE
# Needs    log, bounded, nodes, stop, watch, progress, checkpoint
# Sourcing it defines the functions above and does nothing else.

_ol_ending_is() { # CLASS EVIDENCE...
  OUTLAST_CLASS=$1
  shift
  OUTLAST_EVIDENCE=$*
}

# The controller has to answer before KILL comes; a second question is worth it when the first has no answer.
_ol_ending_ask() {
  local status=0
  OUTLAST_SCHED_SAYS=$(OUTLAST_QUERY_LIMIT_S=12 ol_sched_state "$OUTLAST_JOB_ID") || status=$?
  return "$status"
}

ol_ending_signalled() {
  local by=''
  _ol_ending_ask || {
    _ol_ending_is ended_unknown "TERM from outside, and the scheduler does not answer"
    return
  }
  [[ $OUTLAST_SCHED_SAYS != *" by="* ]] || by=" (${OUTLAST_SCHED_SAYS##* by=})"
  case $OUTLAST_SCHED_SAYS in
    *verdict=timelimit*)
      # Our own deadline was there first: the limit only overtook the save.
      if [[ -e $OUTLAST_STATE/deadline && -e $OUTLAST_STATE/asked ]]; then
        _ol_ending_is walltime "our deadline, then the scheduler's time limit"
      else
        _ol_ending_is walltime_late "the scheduler's time limit, before our deadline"
      fi
      ;;
    *verdict=requeued*) _ol_ending_is requeued "the scheduler is requeueing the job" ;;
    *verdict=preempted*) _ol_ending_is preempted "the scheduler preempts the job" ;;
    *verdict=node*) _ol_ending_is node "the scheduler says that a node failed" ;;
    *verdict=cancelled*) _ol_ending_is cancelled "the scheduler ends the job, for no limit, failure or preemption: somebody cancelled it$by" ;;
    *) _ol_ending_is cancelled "somebody sent TERM while the job was running" ;;
  esac
}

# Of lines that end with a node's name, those on our own hosts, each behind that host: names out of a log are data.
# A host has a name in each of its networks. One that is out of use already cannot be to blame again.
_ol_ending_of_ours() {
  local line node host
  while read -r line; do
    node=${line##* }
    for host in "${OUTLAST_HOSTS[@]}"; do
      [[ ${host%%.*} != "${node%%.*}" ]] || ol_nodes_is_dropped "$host" || printf '%s %s\n' "$host" "$line"
    done
  done
}

# What the launcher says of dead nodes: srun; PALS, where the child is to blame and not the parent, whose name comes
# first (ezpz PR #244).
_ol_ending_launcher_says() {
  {
    grep -aoE -e 'Node failure on [A-Za-z0-9._-]+' -e "Couldn't forward RPC [a-z]+\([^)]*\) to child [A-Za-z0-9._-]+" \
      -e 'ping RPC timeout from [A-Za-z0-9._-]+' -e 'No reply from [A-Za-z0-9._-]+' "${OUTLAST_SAID:-/dev/null}"
    sed -nE 's/^([A-Za-z0-9._-]+): (shepherd died) from signal .*/\2 on \1/p' "${OUTLAST_SAID:-/dev/null}"
  } 2>/dev/null | _ol_ending_of_ours
}

_ol_ending_named() {
  {
    _ol_ending_launcher_says
    {
      ol_sched_down_nodes "${OUTLAST_HOSTS[@]}"
      [[ ! -e $OUTLAST_STATE/dead ]] || cat "$OUTLAST_STATE/dead"
    } 2>/dev/null | _ol_ending_of_ours
  } | cut -d' ' -f1 | sort -u
}

# The launcher names the node a moment after our TERM, and a node that is back at once is named by nobody else.
ol_ending_nodes() {
  local tick nodes
  for ((tick = 0; tick < 10; tick++)); do
    [[ -z ${OUTLAST_LAUNCH_PID:-} ]] || ol_progress_look "$OUTLAST_LOG"
    nodes=$(OUTLAST_QUERY_LIMIT_S=2 _ol_ending_named)
    [[ -z $nodes && -n ${OUTLAST_LAUNCH_PID:-} ]] || break
    ol_bounded_nap 0.2
  done
  [[ -z $nodes ]] || printf '%s\n' "$nodes"
}

# Stable over hosts, ranks and numbers: how the first rank died and the error's name.
_ol_ending_fingerprint() { # WHAT
  local name
  name=$(tail -c 200000 "$OUTLAST_LOG" | grep -aoE '\b[A-Z][A-Za-z_.]*(Error|Exception|Interrupt)\b' | tail -n 1)
  OUTLAST_FINGERPRINT="$1${name:+/$name}"
}

# Words of errno, in the log's last part. Prints the line.
_ol_ending_storage() {
  tail -c 200000 "$OUTLAST_LOG" | grep -aE 'No space left on device|Disk quota exceeded|Input/output error|Stale file handle|Read-only file system|LustreError' |
    tail -n 1
}

# Is the shared file system full for us? 0 yes, 1 no, 2 no answer.
_ol_ending_shared_is_full() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'f=$1/.probe.$$; if head -c 1048576 /dev/zero >"$f" 2>/dev/null; then rm -f "$f"; exit 1; fi; rm -f "$f"; exit 0' _ \
    "$OUTLAST_RUN_DIR"
}

# The node that its stacks accuse (lib/suspect.sh).
_ol_ending_suspect() {
  local host='' reason=''
  read -r host reason 2>/dev/null <"$OUTLAST_STATE/suspect"
  [[ -n $host ]] || return 0
  OUTLAST_BLAME=("$host") OUTLAST_BLAME_WHY=$reason
  OUTLAST_EVIDENCE+="; $host is unlike the others: ${reason/hang/its rank is stopped or gone}"
}

_ol_ending_by_request() { # REASON
  case $1 in
    stop) _ol_ending_is stopped "control/stop" ;;
    deadline) _ol_ending_is walltime "our deadline: $(cut -d' ' -f2- "$OUTLAST_STATE/deadline")" ;;
    lost) _ol_ending_is superseded "a newer lease than $OUTLAST_GENERATION" ;;
    node)
      _ol_ending_is node "dead: $(paste -sd' ' "$OUTLAST_STATE/dead"): $(cat "$OUTLAST_STATE/dead.why"), and nothing can be started there"
      OUTLAST_FINGERPRINT=node
      ;;
    hang)
      # As `timeout` would have it: what the launcher says of ranks that we killed is no evidence.
      OUTLAST_LAUNCH_CODE=124 OUTLAST_FINGERPRINT=hang/$OUTLAST_HANG_PHASE
      _ol_ending_is hang "$OUTLAST_HANG_SAYS"
      _ol_ending_suspect
      ;;
    wrong_resume) _ol_ending_is wrong_resume "first step $OUTLAST_FIRST_STEP, promised $OUTLAST_RESUME_STEP" ;;
    *) return 1 ;;
  esac
}

# The step itself was cancelled by a person: no rank has said how it died, and nobody of us killed it. A progress bar has
# no line ends, and srun may cut the line behind it anywhere: `… STEP 1.1 ON fro`, `0: ntier00001 CANCELLED AT …`.
_ol_ending_step_was_cancelled() {
  [[ -z $1 ]] && grep -qaE 'CANCELLED AT [0-9]{4}-[0-9T:-]+ ?(\*\*\*|$)' "$OUTLAST_SAID"
}

# What the trainer or the launcher said last; the shim's own line comes after it.
_ol_ending_last_words() {
  tail -c 4000 "$OUTLAST_LOG" | tr '\r' '\n' | grep -a '[^[:space:]]' | grep -avE 'outlast: rank |srun: error: [^ ]+: tasks? ' | tail -n 1
}

_ol_ending_crash() { # FIRST_DEATH
  local code=$OUTLAST_LAUNCH_CODE what storage
  what=${1##* ended with }
  what=${what% at *}
  [[ -n $1 ]] || what="code $code"
  _ol_ending_fingerprint "$what"
  if ! grep -qaE 'outlast: rank 0 of [0-9]+ on .* started' "$OUTLAST_SAID" || [[ $what =~ ^code\ 12[67]$ ]]; then
    _ol_ending_is launch "${1:-the launcher ended with code $code, no rank started}: $(_ol_ending_last_words)"
    return
  fi
  storage=$(_ol_ending_storage)
  if [[ -n $storage ]]; then
    _ol_ending_is storage "$storage"
    return
  fi
  _ol_ending_is crash "${1:-the launcher ended with code $code}"
}

ol_ending_attempt() {
  local death reason newest said finished=0 made=''
  OUTLAST_FINGERPRINT=''
  # What the scheduler said when TERM came stands, unless training was over by then.
  [[ -z ${OUTLAST_CLASS:-} ]] || return 0
  death=$(ol_watch_first_death)
  reason=$(ol_stop_asked)
  newest=$(ol_checkpoint_complete 0 | tail -n 1)
  ol_progress_is_finished "$OUTLAST_LOG" "${newest#* }" "$reason" || finished=$?
  [[ -z $newest || ${newest%% *} -le ${OUTLAST_RESUME_STEP:-0} ]] || made=checkpoint
  [[ -z $OUTLAST_STEP ]] || made="step $OUTLAST_STEP"
  if [[ $reason != wrong_resume && $reason != lost ]] && ((finished == 0)); then
    _ol_ending_is "done" "training is over${OUTLAST_STEP:+ at step $OUTLAST_STEP}"
  elif _ol_ending_by_request "$reason"; then
    :
  elif ((OUTLAST_LAUNCH_CODE == 0 && finished == 2)) && [[ -n $made ]]; then
    _ol_ending_is "done" "exit 0 that nobody asked for, after $made"
  elif ((OUTLAST_LAUNCH_CODE == 0)); then
    _ol_ending_is early_exit "exit 0 that nobody asked for, and nothing says that training is over"
  elif said=$(_ol_ending_launcher_says | head -n 1) && [[ -n $said ]]; then
    _ol_ending_is node "the launcher says: ${said#* }"
    OUTLAST_FINGERPRINT=node
  elif _ol_ending_step_was_cancelled "$death"; then
    _ol_ending_is cancelled "somebody cancelled the step: $(grep -aoE '(STEP [0-9.]+ ON [^ ]+ )?CANCELLED AT [^ ]+' "$OUTLAST_SAID" | head -n 1)"
  else
    _ol_ending_crash "$death"
  fi
}
