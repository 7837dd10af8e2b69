# shellcheck shell=bash
# lib/scheduler/local.sh - one machine without a scheduler: jobs are processes, a job is a folder in a queue
#
# The same functions as lib/scheduler/slurm.sh, where they are described. A job's folder
# ${OUTLAST_LOCAL_QUEUE}/ID holds: name script depend delay_s output dir (as submitted), pid, end_time,
# state (pending|running|ending|ended) and verdict, each one line. A runner process per job waits for the
# parent, starts the script with an empty environment and keeps the time limit: TERM, 10 s later KILL.
#
# Reads    OUTLAST_LOCAL_QUEUE (default ~/.local/state/outlast/queue), OUTLAST_LOCAL_JOB (own id, set by the runner)
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

_ol_local_queue() { printf '%s\n' "${OUTLAST_LOCAL_QUEUE:-$HOME/.local/state/outlast/queue}"; }

# No queue yet is an empty one; one that is there and cannot be read (its file system is away) says nothing about jobs.
_ol_local_answers() {
  local queue
  queue=$(_ol_local_queue)
  [[ -d $queue && -r $queue && -x $queue || ! -e $queue && ! -L $queue ]]
}

_ol_local_get() { # ID FIELD; status 1: there is none; 2: nobody can say
  local value queue
  queue=$(_ol_local_queue)
  if IFS= read -r value 2>/dev/null <"$queue/$1/$2" || [[ -n ${value:-} ]]; then
    printf '%s\n' "$value"
  else
    _ol_local_answers || return 2
    return 1
  fi
}

_ol_local_put() { # ID FIELD VALUE; written whole, readers poll
  local queue
  queue=$(_ol_local_queue)
  printf '%s\n' "$3" >"$queue/$1/.$2.$BASHPID" && mv -f "$queue/$1/.$2.$BASHPID" "$queue/$1/$2"
}

# The same for a job's runner, which has the time to wait until somebody can say.
_ol_local_read() { # ID FIELD
  local status
  while :; do
    status=0
    _ol_local_get "$@" || status=$?
    ((status == 2)) || return "$status"
    sleep 0.2
  done
}

_ol_local_write() { # ID FIELD VALUE
  until _ol_local_put "$@" 2>/dev/null; do
    ! _ol_local_answers || return 1
    sleep 0.2
  done
}

_ol_local_new() { # print a fresh id
  local queue id=1 last
  queue=$(_ol_local_queue)
  mkdir -p "$queue" || return
  last=$(find "$queue" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*' -printf '%f\n' | sort -n | tail -n 1)
  id=$((${last:-0} + 1))
  until mkdir -m 0700 "$queue/$id" 2>/dev/null; do
    id=$((id + 1))
    ((id < ${last:-0} + 1000)) || return
  done
  printf '%d\n' "$id"
}

# Is the process that wrote FIELD still there? The start time tells it from a later one with its number.
_ol_local_stamp() { # PID
  local stat
  read -r stat 2>/dev/null <"/proc/$1/stat" || return
  # shellcheck disable=SC2086 # words wanted: after the last ) the 20th is the start time
  set -- ${stat##*) }
  printf '%s\n' "${20}"
}

_ol_local_is_alive() { # "PID STAMP"
  local now
  now=$(_ol_local_stamp "${1% *}") || return
  [[ $now == "${1#* }" ]]
}

ol_sched_submit() {
  local script=$1 name=$2 id queue option user
  shift 2
  [[ -r $script ]] || {
    printf 'no script %s\n' "$script" >&2
    return 1
  }
  id=$(_ol_local_new) || return 2
  queue=$(_ol_local_queue)
  cp "$script" "$queue/$id/script" || return 2
  _ol_local_put "$id" name "$name"
  for option in "$@"; do
    _ol_local_put "$id" "${option%%=*}" "${option#*=}"
  done
  _ol_local_put "$id" state pending
  _ol_local_put "$id" verdict none
  user=${USER:-$(id -un)}
  # shellcheck disable=SC2016 # expanded by the runner
  env -i HOME="$HOME" USER="$user" LOGNAME="$user" PATH="${OUTLAST_LOCAL_PATH:-$PATH}" \
    OUTLAST_LOCAL_PATH="${OUTLAST_LOCAL_PATH:-$PATH}" \
    LANG="${LANG:-C.UTF-8}" OUTLAST_LOCAL_QUEUE="$queue" OUTLAST_LOCAL_JOB="$id" \
    setsid --fork bash -c "$(declare -f _ol_local_queue _ol_local_answers _ol_local_get _ol_local_put _ol_local_read _ol_local_write \
      _ol_local_stamp _ol_local_is_alive _ol_local_ended _ol_local_locked _ol_local_begin _ol_local_wait_turn _ol_local_watch _ol_local_run); "'_ol_local_run' outlast-runner \
    </dev/null >/dev/null 2>&1
  printf '%d\n' "$id"
}

# Also a job that waits has a process of its own; it writes itself down when it begins to wait. Status 1: it has not
# ended, as far as anybody can say.
_ol_local_ended() { # ID
  local state pid status=0
  state=$(_ol_local_get "$1" state) || status=$?
  ((status != 2)) || return 1
  [[ $status == 0 && $state != ended ]] || return 0
  pid=$(_ol_local_get "$1" pid) || return 1
  ! _ol_local_is_alive "$pid"
}

# What looks at a job's state and changes it, so that a job does not start while it is cancelled.
_ol_local_locked() { # ID CMD...
  local queue
  queue=$(_ol_local_queue)
  {
    flock 9
    "${@:2}"
  } 9>>"$queue/$1/.lock"
}

_ol_local_begin() { # ID; status 1: it does not wait any more, or nobody can say
  local state
  state=$(_ol_local_get "$1" state)
  [[ $state == pending ]] && _ol_local_put "$1" state running
}

# Returns when the job is running. Status 1: cancelled while it waited.
_ol_local_wait_turn() {
  local id=$OUTLAST_LOCAL_JOB parent state start_s now_s
  printf -v start_s '%(%s)T' -1
  now_s=$(_ol_local_read "$id" delay_s) && start_s=$((start_s + now_s))
  parent=$(_ol_local_read "$id" depend) || parent=''
  while :; do
    state=$(_ol_local_read "$id" state)
    [[ $state == pending ]] || return 1
    printf -v now_s '%(%s)T' -1
    if ((now_s >= start_s)) && { [[ -z $parent ]] || _ol_local_ended "$parent"; }; then
      ! _ol_local_locked "$id" _ol_local_begin "$id" || return 0
    fi
    sleep 0.2
  done
}

_ol_local_watch() { # PID
  local id=$OUTLAST_LOCAL_JOB end_s now_s state told_s=0
  while kill -0 "$1" 2>/dev/null; do
    printf -v now_s '%(%s)T' -1
    end_s=$(_ol_local_get "$id" end_time)
    state=$(_ol_local_get "$id" state)
    if [[ $state == running && -n $end_s ]] && ((now_s >= end_s)); then
      _ol_local_put "$id" verdict timelimit
      _ol_local_put "$id" state ending
      kill -s TERM "$1"
      told_s=$now_s
    elif [[ $state == ending ]] && ((told_s == 0)); then
      kill -s TERM "$1"
      told_s=$now_s
    elif ((told_s > 0 && now_s >= told_s + 10)); then
      pkill -KILL -s "$1"
    fi
    sleep 0.2
  done
}

_ol_local_run() {
  local id=$OUTLAST_LOCAL_JOB queue pid code=0 walltime_s now_s output name dir verdict
  queue=$(_ol_local_queue)
  pid=$BASHPID
  _ol_local_write "$id" pid "$pid $(_ol_local_stamp "$pid")"
  output=$(_ol_local_read "$id" output) || output=/dev/null
  name=$(_ol_local_read "$id" name)
  output=${output//%j/"$id"}
  output=${output//%x/"$name"}
  dir=$(_ol_local_read "$id" dir) || dir=$HOME
  walltime_s=$(sed -n "s/^OUTLAST_WALLTIME_S=//p;T;q" "$queue/$id/script" | tr -dc 0-9)
  _ol_local_wait_turn || return
  printf -v now_s '%(%s)T' -1
  _ol_local_write "$id" end_time "$((now_s + ${walltime_s:-3600}))"
  cd "$dir" || cd / || return
  setsid bash -l "$queue/$id/script" >>"$output" 2>&1 &
  pid=$!
  _ol_local_watch "$pid"
  wait "$pid" || code=$?
  # What the job left behind goes with it, as under a scheduler.
  pkill -KILL -s "$pid"
  verdict=$(_ol_local_read "$id" verdict)
  if [[ $verdict == none ]]; then
    verdict=ok
    ((code == 0)) || verdict=failed
    _ol_local_write "$id" verdict "$verdict"
  fi
  _ol_local_write "$id" code "$code"
  _ol_local_write "$id" state ended
}

ol_sched_find() {
  local queue job state name
  _ol_local_answers || return 2
  queue=$(_ol_local_queue)
  for job in "$queue"/[0-9]*; do
    job=${job##*/}
    name=$(_ol_local_get "$job" name) || continue
    [[ $name == "$1" ]] || continue
    ! _ol_local_ended "$job" || continue
    printf '%s\n' "$job"
    return 0
  done
  _ol_local_answers || return 2
  return 1
}

ol_sched_state() {
  local state verdict
  state=$(_ol_local_get "$1" state) || return
  verdict=$(_ol_local_get "$1" verdict) || verdict=none
  if _ol_local_ended "$1"; then
    # It may have ended since the look above; without a last word its runner was killed.
    state=$(_ol_local_get "$1" state)
    verdict=$(_ol_local_get "$1" verdict) || verdict=none
    [[ $state == ended || $verdict != none ]] || verdict=failed
    state=ended
  fi
  printf 'state=%s verdict=%s restarts=0\n' "$state" "$verdict"
}

_ol_local_cancel() { # ID
  local state
  state=$(_ol_local_get "$1" state)
  [[ $state != ended ]] || return 0
  _ol_local_put "$1" verdict cancelled
  if [[ $state == pending ]]; then
    _ol_local_put "$1" state ended
  else
    _ol_local_put "$1" state ending
  fi
}

ol_sched_cancel() {
  local id status
  for id in "$@"; do
    status=0
    _ol_local_get "$id" state >/dev/null || status=$?
    case $status in
      0) _ol_local_locked "$id" _ol_local_cancel "$id" || return 2 ;;
      2) return 2 ;;
    esac
  done
}

ol_sched_end_time() { _ol_local_get "${1:-${OUTLAST_LOCAL_JOB:-$OUTLAST_JOB_ID}}" end_time || return 2; }

# There is one node, which the job runs on.
ol_sched_exclude() { return 1; }
ol_sched_excludes() { return 1; }
ol_sched_down_nodes() { :; }
ol_sched_release() { return 1; }
ol_sched_reasons() { :; }
ol_sched_is_here() { return 1; }

ol_sched_known_nodes() {
  local node
  for node in "$@"; do
    [[ $node != "$HOSTNAME" ]] || printf '%s\n' "$node"
  done
}

# A script that somebody started by hand enters itself into the queue.
ol_sched_job_id() {
  local id now_s
  if [[ -z ${OUTLAST_LOCAL_JOB:-} ]]; then
    id=$(_ol_local_new) || return
    printf -v now_s '%(%s)T' -1
    _ol_local_put "$id" name "$OUTLAST_RUN"
    _ol_local_put "$id" pid "$$ $(_ol_local_stamp "$$")"
    _ol_local_put "$id" end_time "$((now_s + OUTLAST_WALLTIME_S))"
    _ol_local_put "$id" verdict none
    _ol_local_put "$id" state running
    printf '%d\n' "$id"
  else
    printf '%s\n' "$OUTLAST_LOCAL_JOB"
  fi
}

ol_sched_restart() { echo 0; }
ol_sched_nodes() { hostname; }
ol_sched_submit_dir() { printf '%s\n' "$OUTLAST_START_DIR"; }

ol_sched_on_each() {
  local limit_s=$1
  shift 2
  timeout -k 5 "$limit_s" "$@"
}

# Ranks in process groups of their own (set -m), all in the job's session; like srun it hands USR1 and
# USR2 on, waits for all of its ranks, returns the highest code, and TERM kills them all.
ol_sched_launch() {
  local ranks_per_node=$2 rank pids=() code worst=0 nap
  shift 2
  set -m
  exec {nap}<> <(:) # a pipe on which nothing arrives: the loop below naps without a process
  for ((rank = 0; rank < ranks_per_node; rank++)); do
    RANK=$rank LOCAL_RANK=$rank NODE_RANK=0 WORLD_SIZE=$ranks_per_node "$@" </dev/null {nap}>&- &
    pids+=("$!")
  done
  # shellcheck disable=SC2064 # the process ids of now; a negative one is the rank's process group
  {
    trap "kill -s USR1 ${pids[*]} 2>/dev/null" USR1
    trap "kill -s USR2 ${pids[*]} 2>/dev/null" USR2
    trap "kill -s KILL -- ${pids[*]/#/-} 2>/dev/null" TERM
  }
  while ((${#pids[@]} > 0)); do
    for rank in "${!pids[@]}"; do
      ! kill -0 "${pids[rank]}" 2>/dev/null || continue
      wait "${pids[rank]}"
      code=$?
      ((code != 137)) || _ol_local_shim_killed "$rank" "${pids[rank]}"
      ((code <= worst)) || worst=$code
      unset "pids[rank]"
    done
    # Before Bash 5.2 such a read may never end (lib/bounded.sh).
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 502)); then read -rt 0.2 -u "$nap" _; else sleep 0.2; fi
  done
  exit "$worst"
}

# A killed shim cannot say it, and leaves its trainer behind.
_ol_local_shim_killed() { # RANK PID
  kill -s KILL -- "-$2" 2>/dev/null
  printf 'outlast: rank %d on %s ended with signal KILL at %(%s)T\n' "$1" "$HOSTNAME" -1 >&2
}

ol_sched_signal_launch() {
  case $2 in
    save) kill -s USR1 "$1" ;;
    stop) kill -s USR2 "$1" ;;
  esac 2>/dev/null
}

ol_sched_kill_launch() {
  local pid=$1 tick
  kill -s TERM "$pid" 2>/dev/null
  for ((tick = 0; tick < 100; tick++)); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -s KILL "$pid" 2>/dev/null
}
