# shellcheck shell=bash
# lib/scheduler/slurm.sh - everything that is said to Slurm, and nothing else says it
#
# Every question returns 0 yes or done, 1 no or refused, 2 no answer.
# Functions
#   ol_sched_submit SCRIPT NAME [depend=ID] [exclude=A,B] [delay_s=N] [output=FILE] [dir=DIR]
#                                 print the new job's id; 1: refused for good, the reason on stderr
#   ol_sched_find NAME            print the id of my pending or running job of that name
#   ol_sched_state ID             print state=pending|running|ending|ended verdict=... restarts=N (below) [by=WHO]
#   ol_sched_cancel ID...         cancel jobs, in one call
#   ol_sched_end_time [ID]        print when the allocation ends, UTC seconds since 1970
#   ol_sched_exclude ID A,B       exclude nodes from a pending job of mine
#   ol_sched_known_nodes A...     print those that this cluster has, one a line
#   ol_sched_down_nodes A...      print those that are down, one a line
#   ol_sched_reasons              print what it says of nodes that are down or out of service, in its own form
#   ol_sched_is_here              has this machine its commands?
#   ol_sched_excludes             can a job be kept off nodes?
# and inside a job
#   ol_sched_job_id, ol_sched_restart, ol_sched_nodes, ol_sched_submit_dir
#   ol_sched_on_each SEC NODES CMD...       run CMD once on each of the (comma separated) nodes
#   ol_sched_launch NODES RANKS_PER_NODE CMD...   become the launcher (exec): call it in a subshell
#   ol_sched_signal_launch PID save|stop    tell the ranks
#   ol_sched_kill_launch PID                kill all ranks
#   ol_sched_release NODE                   give a node of this job up, but its first one, and go on without it
#
# verdict: none, ok, failed, timelimit, node, requeued, preempted, cancelled
# Reads    SLURM_* of the job, OUTLAST_LAUNCH_ARGS
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

_ol_slurm_gives_no_answer() {
  [[ $1 == *"Unable to contact"* || $1 == *"Socket timed out"* || $1 == *"onnection"* ||
    $1 == *"Unexpected message received"* || $1 == *"Zero Bytes"* || $1 == *"emporarily una"* ||
    $1 == *"standby mode"* || $1 == *"uthentication error"* || $1 == *"Munge "* || $1 == *"try again"* || -z $1 ]]
}

# A profile may have told these how to print, and what to leave out.
_ol_slurm_plainly() { # SEC COMMAND ARGS...
  local name unset=()
  for name in "${!SQUEUE_@}" "${!SINFO_@}"; do unset+=(-u "$name"); done
  timeout -k 2 "$1" env "${unset[@]}" SLURM_TIME_FORMAT=standard "${@:2}"
}

# sbatch inside a job leaks the parent's shape (SLURM_NTASKS, ...) into the child, and SBATCH_* of the
# user beats the script's directives: slurm-facts 14, 3.
_ol_slurm_sbatch() {
  local name
  for name in "${!SLURM_@}" "${!SBATCH_@}"; do
    [[ $name == SLURM_CONF ]] || unset "$name"
  done
  timeout -k 2 30 sbatch --parsable "$@"
}

ol_sched_submit() {
  local script=$1 name=$2 args=() option answer
  shift 2
  for option in "$@"; do
    case $option in
      depend=*) args+=(--dependency="afterany:${option#*=}") ;;
      exclude=*) args+=(--exclude="${option#*=}") ;;
      delay_s=[1-9]*) args+=(--begin="now+${option#*=}seconds") ;;
      output=*) args+=(--output="${option#*=}") ;;
      dir=*) args+=(--chdir="${option#*=}") ;;
    esac
  done
  if answer=$(_ol_slurm_sbatch --job-name="$name" "${args[@]}" "$script" 2>&1); then
    # `4711`, or `4711;CLUSTER`; a site's own words may stand around it.
    [[ $'\n'$answer$'\n' =~ $'\n'([0-9]+)(;[^$'\n']*)?$'\n' ]] || return 2
    printf '%s\n' "${BASH_REMATCH[1]}"
  elif _ol_slurm_gives_no_answer "$answer"; then
    return 2
  else
    printf '%s\n' "${answer//$'\n'/ }" >&2
    return 1
  fi
}

ol_sched_find() {
  local answer
  answer=$(_ol_slurm_plainly 30 squeue --me --noheader --name="$1" --states=PD,R,CF,S --format=%i 2>/dev/null) || return 2
  [[ -n $answer ]] || return 1
  printf '%s\n' "${answer%%$'\n'*}"
}

_ol_slurm_field() { # TEXT NAME
  local rest=" $1"
  [[ $rest == *" $2="* ]] || return 1
  rest=${rest#*" $2="}
  printf '%s\n' "${rest%% *}"
}

# Source: slurm-facts, "What tells the endings apart inside the TERM trap".
_ol_slurm_verdict() { # STATE REASON RESTARTS PREEMPT_TIME MINE
  local state=$1 reason=$2 restarts=$3 preempted=$4 mine=$5
  if [[ $mine == 1 ]] && ((restarts > ${SLURM_RESTART_COUNT:-0})); then
    echo requeued
  elif [[ $reason == job_requeued_in_held_state ]]; then
    echo requeued
  elif [[ $state == TIMEOUT || $state == DEADLINE || $state == COMPLETING && $reason == TimeLimit ]]; then
    echo timelimit
  elif [[ $state == NODE_FAIL || $state == BOOT_FAIL || $state == COMPLETING && $reason == NodeDown ]]; then
    echo node
  elif [[ $state == PREEMPTED || -n $preempted && $preempted != None && $state =~ ^(RUNNING|COMPLETING)$ ]]; then
    echo preempted
  elif [[ $state == CANCELLED* || $state == COMPLETING && $mine == 1 ]]; then
    # The script is alive and the job is ending for none of the reasons above: somebody cancelled it.
    echo cancelled
  elif [[ $state == COMPLETED ]]; then
    echo ok
  elif [[ $state == FAILED || $state == OUT_OF_MEMORY ]]; then
    echo failed
  else
    echo none
  fi
}

ol_sched_state() {
  local id=$1 text state reason restarts preempted verdict phase mine=0
  if ! text=$(_ol_slurm_plainly "${OUTLAST_QUERY_LIMIT_S:-20}" scontrol show job -o "$id" 2>&1); then
    [[ $text == *"Invalid job id"* ]] && return 1
    return 2
  fi
  state=$(_ol_slurm_field "$text" JobState) || return 2
  reason=$(_ol_slurm_field "$text" Reason)
  restarts=$(_ol_slurm_field "$text" Restarts)
  preempted=$(_ol_slurm_field "$text" PreemptTime)
  [[ $id != "${SLURM_JOB_ID:-}" ]] || mine=1
  verdict=$(_ol_slurm_verdict "$state" "$reason" "${restarts:-0}" "$preempted" "$mine")
  case $state in
    PENDING | REQUEUE* | SPECIAL_EXIT | RESV_DEL_HOLD) phase=pending ;;
    COMPLETING | STAGE_OUT) phase=ending ;;
    COMPLETED | CANCELLED* | FAILED | TIMEOUT | NODE_FAIL | PREEMPTED | OUT_OF_MEMORY | BOOT_FAIL | DEADLINE | REVOKED) phase=ended ;;
    *) phase=running ;; # also stopped, signalled, resized: it holds its nodes
  esac
  printf 'state=%s verdict=%s restarts=%d\n' "$phase" "$verdict" "${restarts:-0}"
}

# A cancel of an unknown job is silent and 0: slurm-facts, section 3.
ol_sched_cancel() {
  timeout -k 2 30 scancel "$@" 2>/dev/null || return 2
}

ol_sched_end_time() {
  local answer
  answer=$(_ol_slurm_plainly 30 squeue --noheader --jobs="${1:-$SLURM_JOB_ID}" --format=%e 2>/dev/null) || return 2
  [[ $answer == [0-9]*T* ]] || return 2
  date -d "$answer" +%s 2>/dev/null || return 2
}

ol_sched_is_here() { command -v sinfo >/dev/null; }
ol_sched_excludes() { :; }

# The time before the nodes tells one fault of a node from its next one.
ol_sched_reasons() {
  _ol_slurm_plainly 30 sinfo --noheader --list-reasons --format='%E  %u  %H  %N' 2>/dev/null || return 2
}

ol_sched_exclude() {
  timeout -k 2 30 scontrol update jobid="$1" ExcNodeList="$2" >/dev/null 2>&1 || return 2
}

ol_sched_known_nodes() {
  local known node
  known=$(_ol_slurm_plainly 30 sinfo --noheader --Node --format=%N 2>/dev/null) || return 2
  for node in "$@"; do
    [[ $'\n'$known$'\n' != *$'\n'"$node"$'\n'* ]] || printf '%s\n' "$node"
  done
}

# sinfo names a node once for each of its partitions.
ol_sched_down_nodes() {
  local IFS=, down
  down=$(_ol_slurm_plainly 30 sinfo --noheader --Node --states=down,fail --nodes="$*" --format=%N 2>/dev/null) || return 2
  [[ -z $down ]] || sort -u <<<"$down"
}

# salloc may leave its shell on the login node, where neither the node-local storage nor its checkpoints are.
ol_sched_job_id() {
  if [[ -z ${SLURM_JOB_ID:-} ]]; then
    echo "not in a Slurm job; type: sbatch SCRIPT, or outlast submit SITE JOB" >&2
    return 1
  elif [[ -z ${SLURMD_NODENAME:-} ]]; then
    echo "this shell is not on a node of job $SLURM_JOB_ID; type first: srun --overlap --nodes=1 --ntasks=1 --pty bash -l" >&2
    return 1
  fi
  printf '%s\n' "$SLURM_JOB_ID"
}

ol_sched_restart() { printf '%d\n' "${SLURM_RESTART_COUNT:-0}"; }

# No question to Slurm; but without a slurm.conf of its own (configless) a node fetches that first.
ol_sched_nodes() {
  local answer
  answer=$(timeout -k 2 "${OUTLAST_QUERY_LIMIT_S:-20}" scontrol show hostnames "$SLURM_JOB_NODELIST") || return 2
  printf '%s\n' "$answer"
}

ol_sched_submit_dir() { printf '%s\n' "${SLURM_SUBMIT_DIR:-$PWD}"; }

# What --nodelist takes: the hosts, or a file of them where they are too many for one word of a command line. One list has
# one file, however often it is asked for.
_ol_slurm_nodelist() { # HOSTS
  local sum file part
  if ((${#1} <= 100000)); then
    printf '%s\n' "$1"
    return
  fi
  sum=$(cksum <<<"$1")
  file=$OUTLAST_STATE/nodelist.${sum// /.}
  part=$file.$BASHPID
  [[ -s $file ]] || { tr , '\n' <<<"$1" >"$part" && mv -f -- "$part" "$file"; }
  printf '%s\n' "$file"
}

# --overlap: the training step holds every core and GPU.
ol_sched_on_each() {
  local limit_s=$1 hosts=$2 each count
  shift 2
  IFS=, read -ra each <<<"$hosts"
  count=${#each[@]}
  timeout -k 5 "$limit_s" srun --overlap --export=ALL --nodes="$count" --ntasks="$count" --ntasks-per-node=1 \
    --cpus-per-task=1 --nodelist="$(_ol_slurm_nodelist "$hosts")" --input=none "$@"
}

# srun sorts its --nodelist (measured on Slurm 22.05). Ranks shall follow ours, in which a spare stands in the place of a
# lost node: then the host of each rank is written down. Prints the file, or nothing where both orders are the same.
_ol_slurm_places() { # NODES RANKS_PER_NODE
  local host rank all trains sorted='' file=$OUTLAST_STATE/places
  local -A has=()
  IFS=, read -ra trains <<<"$1"
  for host in "${trains[@]}"; do has[$host]=1; done
  mapfile -t all < <(ol_sched_nodes)
  for host in "${all[@]}"; do
    [[ -z $host || -z ${has[$host]:-} ]] || sorted+=${sorted:+,}$host
  done
  [[ -n $sorted && $sorted != "$1" ]] || return 0
  for host in "${trains[@]}"; do
    for ((rank = 0; rank < $2; rank++)); do printf '%s\n' "$host"; done
  done >"$file"
  printf '%s\n' "$file"
}

# Slurm's own reactions to a dead rank are off (-K hides which rank was first, -W kills without a TERM:
# slurm-facts 18); the watch looks at the shim's lines instead. --label tells whose line it is.
ol_sched_launch() {
  local hosts=$1 ranks_per_node=$2 each count file places
  shift 2
  IFS=, read -ra each <<<"$hosts"
  count=${#each[@]}
  places=(--ntasks-per-node="$ranks_per_node" --nodelist="$(_ol_slurm_nodelist "$hosts")" --distribution=block)
  file=$(_ol_slurm_places "$hosts" "$ranks_per_node")
  if [[ -n $file ]]; then
    export SLURM_HOSTFILE=$file
    places=(--distribution=arbitrary)
  fi
  exec srun --export=ALL --overlap --job-name=outlast-train --nodes="$count" --ntasks="$((count * ranks_per_node))" \
    "${places[@]}" --kill-on-bad-exit=0 --wait=0 \
    --label --input=none "${OUTLAST_LAUNCH_ARGS[@]}" "$@"
}

# srun hands USR1 and USR2 on as they are, once, without its controller (slurm-facts 8 and section 9).
ol_sched_signal_launch() {
  case $2 in
    save) kill -s USR1 "$1" ;;
    stop) kill -s USR2 "$1" ;;
  esac 2>/dev/null
}

# TERM to srun is KILL for all its ranks (slurm-facts 8). A srun that is left is asked for through the controller.
ol_sched_kill_launch() {
  local pid=$1 tick step
  kill -s TERM "$pid" 2>/dev/null
  for ((tick = 0; tick < 100; tick++)); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -s KILL "$pid" 2>/dev/null
  step=$(_ol_slurm_plainly 20 squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format='%i %j' 2>/dev/null)
  while read -r step _; do
    timeout -k 2 20 scancel --signal=KILL "$step" 2>/dev/null
  done < <(grep ' outlast-train$' <<<"$step")
  return 0
}

# Works before Slurm knows that the node is dead, and the job survives its failure (slurm-facts 5). What the
# environment says of the nodes is corrected here; scontrol writes it into a script in its folder.
ol_sched_release() {
  local nodes=() left=() node answer
  mapfile -t nodes < <(ol_sched_nodes)
  for node in "${nodes[@]}"; do
    [[ $node == "$1" ]] || left+=("$node")
  done
  [[ ${left[0]:-} == "${nodes[0]:-}" ]] && ((${#left[@]} < ${#nodes[@]})) || return 1
  local IFS=,
  if ! answer=$(cd "${OUTLAST_STATE:-/tmp}" && timeout -k 2 20 scontrol update jobid="$SLURM_JOB_ID" NodeList="${left[*]}" 2>&1); then
    _ol_slurm_gives_no_answer "$answer" && return 2
    return 1
  fi
  SLURM_JOB_NODELIST=${left[*]}
}
