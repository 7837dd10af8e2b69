# shellcheck shell=bash
# lib/ending.sh - how did it end? The first row that applies; the evidence is kept (docs/endings.md)
#
# Functions; both set OUTLAST_CLASS, OUTLAST_EVIDENCE and OUTLAST_FINGERPRINT
#   ol_ending_signalled    the job or its ranks got TERM from outside: rows that the scheduler decides
#   ol_ending_attempt      an attempt has ended
#   ol_ending_nodes        print the nodes that the launcher or the scheduler call dead, one a line
#
# An exit code alone proves nothing. A question without an answer is unknown, never no.
# Sets     OUTLAST_SIGNALLED (1: the scheduler was asked why);
#          OUTLAST_ENDING_ROW (the row that was the case) OUTLAST_ENDING_ROWS (array: those before it, and
#          why not; docs/classify.md)
# Reads    OUTLAST_HANG_SAYS OUTLAST_HANG_PHASE
# Needs    log, bounded, masked, nodes, stop, watch, progress, checkpoint, verdict, history
# Sourcing it defines the functions above and does nothing else.

# The trainer's words are among the evidence, and it goes into the ledger, to control/hold and out by mail.
_ol_ending_is() { # CLASS EVIDENCE...
  OUTLAST_CLASS=$1
  shift
  ol_masked_text "$*"
  OUTLAST_EVIDENCE=$OUTLAST_MASKED
}

# The controller has to answer before KILL comes; a second question is worth it when the first has no answer.
_ol_ending_ask() {
  local status=0
  OUTLAST_SCHED_SAYS=$(OUTLAST_QUERY_LIMIT_S=12 ol_sched_state "$OUTLAST_JOB_ID") || status=$?
  return "$status"
}

ol_ending_signalled() {
  local by=''
  OUTLAST_SIGNALLED=1
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
  local -A ours=()
  for host in "${OUTLAST_HOSTS[@]}"; do ours[${host%%.*}]=$host; done
  while read -r line; do
    node=${line##* }
    [[ -n ${node%%.*} ]] || continue
    host=${ours[${node%%.*}]:-}
    [[ -z $host ]] || ol_nodes_is_dropped "$host" || printf '%s %s\n' "$host" "$line"
  done
}

# A host that was rebooted answers again, and srun, which does not find its step there, calls it by its place among the
# step's hosts, in the scheduler's order (Slurm 22.05, also where the ranks have another). Unless a rank was still there.
_ol_ending_missing_step() {
  local line of_step=() host
  line=$(grep -aoE 'Aborting, (io error and missing step|step missing and io error) on node [0-9]+' "$OUTLAST_SAID" 2>/dev/null | head -n 1)
  [[ -n $line ]] || return 0
  for host in "${OUTLAST_HOSTS[@]}"; do
    [[ ,${OUTLAST_NODE_LIST:-}, != *,$host,* ]] || of_step+=("$host")
  done
  host=${of_step[10#${line##* }]:-}
  [[ -n $host ]] && ! grep -qaE "srun: error: ${host%%.*}: tasks? " "$OUTLAST_SAID" || return 0
  printf 'missing step on %s\n' "$host"
}

# What the launcher says of dead nodes: srun; PALS, where the child is to blame and not the parent, whose name comes
# first (ezpz PR #244).
_ol_ending_launcher_says() {
  {
    grep -aoE -e 'Node failure on [A-Za-z0-9._-]+' -e "Couldn't forward RPC [a-z]+\([^)]*\) to child [A-Za-z0-9._-]+" \
      -e 'ping RPC timeout from [A-Za-z0-9._-]+' -e 'No reply from [A-Za-z0-9._-]+' "${OUTLAST_SAID:-/dev/null}"
    sed -nE 's/^([A-Za-z0-9._-]+): (shepherd died) from signal .*/\2 on \1/p' "${OUTLAST_SAID:-/dev/null}"
    _ol_ending_missing_step
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

# Stable over hosts, ranks and numbers: how the first rank died and the error's name. `end:` keeps it apart from those of
# the parser (`log:`), which takes its place where it has answered.
_ol_ending_fingerprint() { # WHAT
  local name
  name=$(tail -c 200000 "$OUTLAST_LOG" | grep -aoE '\b[A-Z][A-Za-z_.]*(Error|Exception|Interrupt)\b' | tail -n 1)
  OUTLAST_FINGERPRINT="end:$1${name:+/$name}"
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

# The node that its stacks accuse (lib/suspect.sh). One that only seems to be unlike the others is a suspect (lib/ladder.sh).
_ol_ending_suspect() {
  local host='' reason='' weak='' said='' is='may be'
  read -r host reason weak 2>/dev/null <"$OUTLAST_STATE/suspect"
  [[ -n $host ]] || return 0
  case $reason in
    hang) said='its rank is stopped or gone' ;;
    behind) said='the others wait for its ranks' ;;
  esac
  if [[ -z $weak ]]; then is=is; fi
  OUTLAST_EVIDENCE+="; $host $is unlike the others: ${said:-$reason}"
  [[ -n $weak ]] || OUTLAST_BLAME=("$host") OUTLAST_BLAME_WHY=$reason
}

# Those that lib/pulse.sh has found.
_ol_ending_dead() {
  local dead why
  dead=$(paste -sd' ' "$OUTLAST_STATE/dead")
  why=$(cat "$OUTLAST_STATE/dead.why")
  _ol_ending_is node "dead: $dead: $why, and nothing can be started there"
}

_ol_ending_by_request() { # REASON
  case $1 in
    stop) _ol_ending_is stopped "control/stop" ;;
    deadline) _ol_ending_is walltime "our deadline: $(cut -d' ' -f2- "$OUTLAST_STATE/deadline")" ;;
    lost) _ol_ending_is superseded "a newer lease than $OUTLAST_GENERATION" ;;
    node)
      _ol_ending_dead
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
# What srun ends by itself is called cancelled as well, but it says why.
_ol_ending_step_was_cancelled() {
  [[ -z $1 ]] && ! grep -qaF 'srun: error: Aborting, ' "$OUTLAST_SAID" && grep -qaE 'CANCELLED AT [0-9]{4}-[0-9T:-]+ ?(\*\*\*|$)' "$OUTLAST_SAID"
}

# What the trainer or the launcher said last; the shim's own line comes after it.
_ol_ending_last_words() {
  tail -c 4000 "$OUTLAST_LOG" | tr '\r' '\n' | grep -a '[^[:space:]]' | grep -avE 'outlast: rank |srun: error: [^ ]+: tasks? ' | tail -n 1
}

# ---- The rows, in order. Each gives 0 and sets class and evidence, or 1 and says in OUTLAST_WHY_NOT why it is not the case.

_ol_ending_row_over() {
  OUTLAST_WHY_NOT="nothing says that training is over"
  [[ $OL_ENDING_ASKED != wrong_resume && $OL_ENDING_ASKED != lost ]] && ((OL_ENDING_FINISHED == 0)) || return 1
  _ol_ending_is "done" "training is over${OUTLAST_STEP:+ at step $OUTLAST_STEP}"
}

_ol_ending_row_asked() {
  OUTLAST_WHY_NOT="we did not ask it to end${OL_ENDING_ASKED:+ (only the peers of a dead rank: $OL_ENDING_ASKED)}"
  _ol_ending_by_request "$OL_ENDING_ASKED"
}

_ol_ending_row_zero() {
  OUTLAST_WHY_NOT="exit code $OUTLAST_LAUNCH_CODE"
  ((OUTLAST_LAUNCH_CODE == 0)) || return 1
  if ((OL_ENDING_FINISHED == 2)) && [[ -n $OL_ENDING_MADE ]]; then
    _ol_ending_is "done" "exit 0 that nobody asked for, after $OL_ENDING_MADE"
  else
    _ol_ending_is early_exit "exit 0 that nobody asked for, and nothing says that training is over"
  fi
}

_ol_ending_row_node() {
  local said
  OUTLAST_WHY_NOT="the launcher names no node of ours as dead"
  said=$(_ol_ending_launcher_says)
  [[ -n $said ]] || return 1
  mapfile -t OUTLAST_BLAME < <(cut -d' ' -f1 <<<"$said" | sort -u)
  said=${said%%$'\n'*}
  _ol_ending_is node "the launcher says: ${said#* }"
  OUTLAST_FINGERPRINT=node OUTLAST_BLAME_WHY=node_down
}

_ol_ending_row_cancelled() {
  OUTLAST_WHY_NOT="nobody cancelled the step"
  _ol_ending_step_was_cancelled "$OL_ENDING_DEATH" || return 1
  _ol_ending_is cancelled "somebody cancelled the step: $(grep -aoE '(STEP [0-9.]+ ON [^ ]+ )?CANCELLED AT [^ ]+' "$OUTLAST_SAID" | head -n 1)"
}

# From here on the log has been judged, which takes a while: TERM may have come meanwhile, and the scheduler knows why.
_ol_ending_row_signalled() {
  OUTLAST_WHY_NOT="no TERM has come"
  [[ -e $OUTLAST_STATE/term ]] || return 1
  ol_verdict_reset
  OUTLAST_FINGERPRINT=''
  ol_ending_signalled
}

_ol_ending_row_command() {
  OUTLAST_WHY_NOT="the command was found and may be run (no exit 126 or 127)"
  [[ $OL_ENDING_HOW =~ ^code\ 12[67]$ ]] || return 1
  _ol_ending_is launch "$OL_ENDING_SAID: $(_ol_ending_last_words)"
}

_ol_ending_row_hardware() {
  OUTLAST_WHY_NOT="the log does not surely put it down to the hardware of a node of ours"
  [[ $OUTLAST_SCOPE == hardware ]] && ((${#OUTLAST_BLAME[@]} > 0)) || return 1
  _ol_ending_is node "$(ol_verdict_told); $OL_ENDING_SAID"
}

_ol_ending_row_launch() {
  OUTLAST_WHY_NOT="rank 0 had started"
  ! grep -qaE 'outlast: rank 0 of [0-9]+ on .* started' "$OUTLAST_SAID" || return 1
  _ol_ending_is launch "${OL_ENDING_DEATH:-the launcher ended with code $OUTLAST_LAUNCH_CODE, no rank started}: $(_ol_ending_last_words)"
}

# A path in the deciding line, or one of the patterns that speak of nothing else. (That it does not fit the model,
# checkpoint_mismatch, is the model's fault; that it cannot be read, the file system's. What is not there is its own.)
_ol_ending_names_checkpoint() {
  case $OUTLAST_PATTERN in
    checkpoint_mismatch) return 1 ;;
    checkpoint_corrupt | checkpoint_incomplete) return 0 ;;
    file_not_found) ;;
    *) [[ $OUTLAST_SCOPE != storage ]] || return 1 ;;
  esac
  [[ $OUTLAST_VERDICT_TEXT == *"/${OUTLAST_RESUME_FROM##*/}"[^0-9]* || $OUTLAST_VERDICT_TEXT == *"/${OUTLAST_RESUME_FROM##*/}" ]]
}

_ol_ending_row_checkpoint() {
  OUTLAST_WHY_NOT="it had not resumed from a checkpoint"
  [[ -n ${OUTLAST_RESUME_FROM:-} ]] || return 1
  OUTLAST_WHY_NOT="it had made a step since it resumed, or nobody can tell"
  [[ $OL_ENDING_EARLY == 1 ]] || return 1
  OUTLAST_WHY_NOT="the log does not surely blame the checkpoint"
  ol_verdict_is_sure && _ol_ending_names_checkpoint || return 1
  OUTLAST_SUSPECT=$OUTLAST_RESUME_FROM
  OUTLAST_BLAME=()
  _ol_ending_is bad_checkpoint "${OUTLAST_RESUME_FROM##*/}: $(ol_verdict_told); $OL_ENDING_SAID"
}

_ol_ending_row_storage() {
  local errno_says=''
  if ol_verdict_is_sure; then
    OUTLAST_WHY_NOT="the log does not put it down to storage"
    [[ $OUTLAST_SCOPE == storage ]] || return 1
    _ol_ending_is storage "$(ol_verdict_told); $OL_ENDING_SAID"
    return
  fi
  errno_says=$(_ol_ending_storage)
  OUTLAST_WHY_NOT="no word of a full or failing file system at the end of the log"
  [[ -n $errno_says ]] || return 1
  _ol_ending_is storage "$errno_says"
}

# The same again would fail again: the program, its settings, the training itself.
_ol_ending_row_systemic() {
  OUTLAST_WHY_NOT="the log does not surely say that the same would fail again"
  ol_verdict_is_sure || return 1
  if [[ $OUTLAST_ACTION != stop || $OUTLAST_SCOPE == scheduler ]]; then
    OUTLAST_WHY_NOT+=", nor has it failed at this step on other nodes"
    [[ $OUTLAST_PERSISTENCE != transient && $OUTLAST_FINGERPRINT == log:* && -n $OUTLAST_STEP ]] || return 1
    OUTLAST_EVERYWHERE=$(ol_history_elsewhere "$OUTLAST_FINGERPRINT" "$OUTLAST_STEP" "$OUTLAST_NODE_LIST")
    [[ -n $OUTLAST_EVERYWHERE ]] || return 1
    OUTLAST_BLAME=()
  fi
  _ol_ending_is systemic "$(ol_verdict_told)${OUTLAST_EVERYWHERE:+; the same on $OUTLAST_EVERYWHERE}; $OL_ENDING_SAID"
}

_ol_ending_row_crash() {
  _ol_ending_is crash "$OL_ENDING_SAID${OUTLAST_PATTERN:+; $(ol_verdict_told)}"
}

# Before the first step, as far as its words are known: no steps in a log of unknown words proves nothing.
_ol_ending_is_early() { [[ -z $OL_ENDING_MADE && -n $OUTLAST_STEP_REGEX ]]; }

# What the rows look at.
_ol_ending_look() {
  local newest
  OL_ENDING_DEATH=$(ol_watch_first_death)
  OL_ENDING_ASKED=$(ol_stop_asked)
  newest=$(ol_checkpoint_complete 0 | tail -n 1)
  OL_ENDING_FINISHED=0 OL_ENDING_MADE='' OL_ENDING_EARLY=0
  ol_progress_is_finished "$OUTLAST_LOG" "${newest#* }" "$OL_ENDING_ASKED" || OL_ENDING_FINISHED=$?
  [[ -z $newest || ${newest%% *} -le ${OUTLAST_RESUME_STEP:-0} ]] || OL_ENDING_MADE=checkpoint
  [[ -z $OUTLAST_STEP ]] || OL_ENDING_MADE="step $OUTLAST_STEP"
  ! _ol_ending_is_early || OL_ENDING_EARLY=1
  OL_ENDING_SAID=${OL_ENDING_DEATH:-the launcher ended with code $OUTLAST_LAUNCH_CODE}
  OL_ENDING_HOW=${OL_ENDING_DEATH##* ended with }
  OL_ENDING_HOW=${OL_ENDING_HOW% at *}
  OL_ENDING_HOW=${OL_ENDING_HOW:-code $OUTLAST_LAUNCH_CODE}
}

# Where the stacks accuse nobody: whom the others waited for may stand in the log. What hung, and in which phase, stays its
# name.
_ol_ending_hung() {
  local name=$OUTLAST_FINGERPRINT
  ((${#OUTLAST_BLAME[@]} == 0)) || return 0
  ! ol_verdict || OUTLAST_EVIDENCE+="; $(ol_verdict_told)"
  OUTLAST_FINGERPRINT=$name
}

# The first of these rows that is the case; of those before it, why not.
_ol_ending_first() { # ROW...
  local row
  for row in "$@"; do
    if "_ol_ending_row_$row"; then
      OUTLAST_ENDING_ROW=$row
      return 0
    fi
    OUTLAST_ENDING_ROWS+=("$row: $OUTLAST_WHY_NOT")
  done
  return 1
}

ol_ending_attempt() {
  OUTLAST_FINGERPRINT='' OUTLAST_ENDING_ROW='' OUTLAST_ENDING_ROWS=()
  # What the scheduler said when TERM came stands, unless training was over by then.
  [[ -z ${OUTLAST_CLASS:-} ]] || return 0
  ol_verdict_reset
  _ol_ending_look
  if _ol_ending_first over asked zero node cancelled; then
    [[ $OUTLAST_CLASS != hang ]] || _ol_ending_hung
    return
  fi
  _ol_ending_fingerprint "$OL_ENDING_HOW"
  ol_verdict
  _ol_ending_first signalled command hardware launch checkpoint storage systemic crash
}
