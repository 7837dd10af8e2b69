# shellcheck shell=bash
# lib/scheduler/pbs.sh - everything that is said to PBS (PBS Pro, OpenPBS), and nothing else says it
#
# The same functions as lib/scheduler/slurm.sh, where they are described. What is different here (pbs-facts):
# no node can be excluded, so `exclude` is not passed on; a job always starts in $HOME; an unreachable server
# blocks a client for 72 s, so each call is bounded; a routing queue may drop a job without a word, so a
# submit is looked after; signals of PBS reach the first host only.
#
# Reads    PBS_* of the job, OUTLAST_LAUNCHER (pals, mpich-ssh, mpich-tmrsh), OUTLAST_LAUNCH_ARGS,
#          OUTLAST_OUT_FD (the job's output file, in which PBS says why it ends the job)
# Needs    bounded
# Sourcing it defines the functions above and does nothing else.

# Exit codes of the clients are PBSE_* & 255: 153 unknown job, 35 finished, 168 not in this state.
_ol_pbs_ask() { _ol_pbs_call "${OUTLAST_QUERY_LIMIT_S:-20}" "$@"; }

# TERM of PBS is for all processes of the script's session, and comes again with a second qdel. A question must not
# die of it; that TERM is ignored by then does not help, since `timeout` catches it.
_ol_pbs_call() { setsid -w timeout -k 2 "$@"; } # SEC CMD...

# Out of time; no connection, internal, credential (munge is away, or clocks differ), protocol (the server is going
# down), no free connection, no server, server down: pbs_error.h, pbs-facts 7.
_ol_pbs_is_no_answer() { # STATUS TEXT
  [[ $1 =~ ^(124|137|162|163|171|172|183|185|186|212)$ || $2 == *"cannot connect to server"* ]]
}

ol_sched_submit() {
  local script=$1 name=$2 args=() option answer folder status=0 delay_s=0 parent=''
  shift 2
  for option in "$@"; do
    case $option in
      depend=?*)
        parent=${option#*=}
        args+=(-W depend="afterany:$parent")
        ;;
      delay_s=[1-9]*) delay_s=${option#*=} ;;
      output=*)
        # Not expanded by PBS. A folder gets ID.OU, and with `-k doe` it is written live.
        folder=$(dirname "${option#*=}")
        _ol_pbs_make_folder "$folder" || return
        args+=(-o "$folder/")
        ;;
      shell=?*) args+=(-S "${option#*=}") ;;
    esac
  done
  # Without a parent it would start before its delay is set below.
  if ((delay_s > 0)) && [[ -z $parent ]]; then
    args+=(-a "$(_ol_pbs_in "$delay_s")")
    delay_s=0
  fi
  answer=$(_ol_pbs_qsub -N "$name" "${args[@]}" "$script" 2>&1) || status=$?
  if ((status != 0)); then
    ! _ol_pbs_is_no_answer "$status" "$answer" || return 2
    printf '%s\n' "${answer//$'\n'/ }" >&2
    return 1
  fi
  answer=${answer##*$'\n'}
  _ol_pbs_arrived "$answer" || return
  ((delay_s == 0)) || _ol_pbs_delay "$answer" "$delay_s"
  printf '%s\n' "$answer"
}

# A job whose log has no place is started 21 times within seconds, and then held for ever (pbs-facts 13).
_ol_pbs_make_folder() {
  local status=0
  ol_bounded 20 mkdir -p "$1" || status=$?
  case $status in
    0) return 0 ;;
    124) return 2 ;;
  esac
  printf 'there is no folder %s for the log of the job, and none can be made\n' "$1" >&2
  return 1
}

# What the submitting job or shell has of PBS does not belong into the next one.
_ol_pbs_qsub() {
  local name
  for name in "${!PBS_@}"; do
    [[ $name == PBS_CONF_FILE || $name == PBS_EXEC ]] || unset "$name"
  done
  _ol_pbs_call 30 qsub "$@"
}

# "If prod limits do not match an execution queue, the job vanishes without an error" (ALCF). A job that PBS drops for
# another reason, its dependency say, is in the history without having run.
_ol_pbs_arrived() {
  local text status=0
  sleep 2
  text=$(_ol_pbs_ask qstat -xf "$1" 2>/dev/null) || status=$?
  if ((status == 0)); then
    [[ $text == *" job_state = F"* && $text != *" stime = "* ]] || return 0
  elif ((status != 153)); then
    return 0 # it has an id, and nobody says that it is gone
  fi
  printf 'job %s was accepted and then dropped: no execution queue takes its nodes and walltime\n' "$1" >&2
  return 1
}

_ol_pbs_in() { date -d "+$1 seconds" +%Y%m%d%H%M.%S; }

# Not by `qsub -a`: such a job stays in its routing queue, without its dependency, and is routed or dropped when the
# time comes and nobody looks (measured on OpenPBS 23.06.06). One that has arrived in its execution queue waits there
# for both. Without its delay it is still a successor, so a failure here is none.
_ol_pbs_delay() { # ID SEC
  _ol_pbs_ask qalter -a "$(_ol_pbs_in "$2")" "$1" >/dev/null 2>&1 || return 0
}

ol_sched_find() {
  local answer
  # Where users may see all jobs, others' have such a name as well.
  answer=$(_ol_pbs_ask qselect -u "${USER:-$(id -un)}" -N "$1" -s QHRWET 2>/dev/null) || return 2
  [[ -n $answer ]] || return 1
  printf '%s\n' "${answer%%$'\n'*}"
}

# Print the value of an attribute of `qstat -f`; long values are continued on lines that begin with a tab.
_ol_pbs_field() { # TEXT NAME
  local text=${1//$'\n\t'/}
  [[ $text =~ (^|$'\n')\ *"$2 = "([^$'\n']*) ]] || return 1
  printf '%s\n' "${BASH_REMATCH[2]}"
}

# Source: pbs-facts, sections 1 and 2: substate first.
_ol_pbs_verdict() { # STATE SUBSTATE EXIT_STATUS COMMENT MINE PAST_END
  local state=$1 substate=$2 code=$3 comment=$4 mine=$5 past_end=$6
  if [[ $substate == 91 || $comment =~ (terminated\ by|deleted\ at\ request\ of)\  ]]; then
    # Polaris: the scheduler deletes jobs of `preemptable` on demand, "Job to be deleted at request of Scheduler".
    [[ $comment =~ (by|of)\ Scheduler ]] && echo preempted || echo cancelled
  elif [[ $state == F && $code == -29 ]]; then
    echo timelimit
  elif [[ $state == F && $code =~ ^-(14|20|30)$ ]]; then
    echo node
  elif [[ $state == F && $substate == 92 && $code == 0 ]]; then
    echo ok
  elif [[ $state == F ]]; then
    echo failed
  elif [[ $mine == 1 && ($substate == 60 || $substate == 63) ]]; then
    echo requeued
  elif [[ $mine == 1 && $past_end == 1 ]]; then
    # At the limit the comment does not change and the state stays R: only the clock tells.
    echo timelimit
  else
    echo none
  fi
}

_ol_pbs_is_past_end() { # TEXT
  local end_s now_s
  end_s=$(_ol_pbs_end "$1") || return 1
  printf -v now_s '%(%s)T' -1
  ((now_s >= end_s))
}

ol_sched_state() {
  local id=$1 text status=0 state substate comment code runs verdict phase by='' mine=0 past=0 told=0
  text=$(_ol_pbs_ask qstat -xf "$id" 2>/dev/null) || status=$?
  [[ $status != 153 ]] || return 1
  ((status == 0)) || return 2
  state=$(_ol_pbs_field "$text" job_state) || return 2
  substate=$(_ol_pbs_field "$text" substate)
  comment=$(_ol_pbs_field "$text" comment)
  code=$(_ol_pbs_field "$text" Exit_status)
  runs=$(_ol_pbs_field "$text" run_count) || runs=1
  [[ $id != "${PBS_JOBID:-}" ]] || mine=1
  ! _ol_pbs_is_past_end "$text" || past=1
  verdict=$(_ol_pbs_verdict "$state" "$substate" "$code" "$comment" "$mine" "$past")
  [[ $verdict != none || $mine == 0 ]] || verdict=$(_ol_pbs_verdict_said)
  [[ $verdict == none ]] || told=1
  [[ $verdict != none || $mine == 0 ]] || verdict=$(_ol_pbs_verdict_nodes)
  [[ ! $comment =~ (terminated\ by|at\ request\ of)\ ([A-Za-z0-9._@-]+) ]] || by=" by=${BASH_REMATCH[2]}"
  case $state in
    Q | H | W | T) phase=pending ;;
    R | S | U | B)
      phase=running
      # Told to end, a job stays R until its script has.
      ((told == 0)) || phase=ending
      ;;
    E) phase=ending ;;
    *) phase=ended ;;
  esac
  printf 'state=%s verdict=%s restarts=%d%s\n' "$phase" "$verdict" "$((runs > 0 ? runs - 1 : 0))" "$by"
}

# Before PBS ends this job by itself it says why in the job's output, and nowhere else: `=>> PBS: job killed: walltime
# 48 exceeded limit 30`, or of a sister that was rebooted `node 1 (HOST) requested job die, code 15009` (measured on
# OpenPBS 23.06.06). The file is on the shared file system.
_ol_pbs_said() {
  [[ -n ${OUTLAST_OUT_FD:-} ]] || return 0
  ol_bounded_print 3 tail -c 4096 "/proc/$$/fd/$OUTLAST_OUT_FD" 2>/dev/null | sed -n 's/^=>> PBS: job killed: //p'
}

_ol_pbs_verdict_said() {
  local said
  said=$(_ol_pbs_said)
  case $said in
    walltime*) echo timelimit ;;
    node*) echo node ;;
    *) echo none ;;
  esac
}

_ol_pbs_verdict_nodes() {
  local nodes=() down
  mapfile -t nodes < <(ol_sched_nodes)
  down=$(ol_sched_down_nodes "${nodes[@]}")
  [[ -n $down ]] && echo node || echo none
}

# Deleting a running parent starts its afterany child (pbs-facts 12): callers name the child first, and
# both go in one call. One that has ended, or is just ending, needs no cancel. The status is that of the last one.
ol_sched_cancel() {
  local answer status=0
  answer=$(_ol_pbs_call 30 qdel "$@" 2>&1) || status=$?
  case $status in
    0 | 35 | 153 | 168) ;;
    159)
      printf '%s\n' "${answer//$'\n'/ }" >&2
      return 1
      ;;
    *) return 2 ;;
  esac
}

# When TEXT's job ends: its start and its walltime.
_ol_pbs_end() { # TEXT
  local start walltime start_s h m s
  start=$(_ol_pbs_field "$1" stime) || return 2
  walltime=$(_ol_pbs_field "$1" Resource_List.walltime) || return 2
  start_s=$(date -d "$start" +%s 2>/dev/null) || return 2
  IFS=: read -r h m s <<<"$walltime"
  printf '%d\n' "$((start_s + 10#$h * 3600 + 10#$m * 60 + 10#$s))"
}

ol_sched_end_time() {
  local text
  text=$(_ol_pbs_ask qstat -xf "${1:-$PBS_JOBID}" 2>/dev/null) || return 2
  _ol_pbs_end "$text"
}

ol_sched_is_here() { command -v pbsnodes >/dev/null; }
ol_sched_reasons() { _ol_pbs_ask pbsnodes -l 2>/dev/null || return 2; }

# PBS has no exclude (pbs-facts, section 6).
ol_sched_exclude() { return 1; }
ol_sched_excludes() { return 1; }

# Of a name that it does not know pbsnodes says so, and goes on; its status is then 1.
ol_sched_known_nodes() {
  local names=() known node status=0
  for node in "$@"; do names+=("$(_ol_pbs_vnode "$node")"); done
  known=$(_ol_pbs_ask pbsnodes "${names[@]}" 2>&1) || status=$?
  [[ $status == 0 || $status == 1 && $known == *"Unknown node"* ]] || return 2
  for node in "$@"; do
    [[ $'\n'$known$'\n' != *$'\n'"$(_ol_pbs_vnode "$node")"$'\n'* ]] || printf '%s\n' "$node"
  done
}

# A node's names differ by domain, on Sunspot by the network as well (x1921c1s0b0n0-hsn0.hsn.cm...); PBS knows it by
# what they have in common.
_ol_pbs_vnode() { # HOST
  local name=${1%%.*}
  printf '%s\n' "${name%-hsn[0-9]*}"
}

# `pbsnodes -l` also lists nodes that an operator has taken out of service (offline): their jobs go on. In its first
# seconds a server that was restarted lists all as `state-unknown,down`, without the comment of a node that it has lost
# (`node down: communication closed`; measured on OpenPBS 23.06.06). A sister that was rebooted is up again, and only this
# job's output names it.
ol_sched_down_nodes() {
  local listed name state why node
  local -A down=()
  listed=$(_ol_pbs_ask pbsnodes -l 2>/dev/null) || return 2
  while read -r name state why; do
    [[ $state == *down* && ($state != *unknown* || -n $why) ]] || continue
    down["is $(_ol_pbs_vnode "$name")"]=1
  done <<<"$listed"
  while read -r name; do
    down["is $(_ol_pbs_vnode "$name")"]=1
  done < <(_ol_pbs_said | sed -nE 's/^node [0-9]+ \(([A-Za-z0-9._-]+)\) requested job die.*/\1/p')
  # Without a process for each of ten thousand nodes.
  for node in "$@"; do
    name=${node%%.*}
    name=${name%-hsn[0-9]*}
    [[ -z ${down["is $name"]:-} ]] || printf '%s\n' "$node"
  done
}

ol_sched_job_id() {
  if [[ -z ${PBS_JOBID:-} || -z ${PBS_NODEFILE:-} ]]; then
    echo "not in a PBS job; type: qsub SCRIPT, or outlast submit SITE JOB" >&2
    return 1
  fi
  printf '%s\n' "$PBS_JOBID"
}

ol_sched_restart() {
  local text runs
  text=$(_ol_pbs_ask qstat -f "$PBS_JOBID" 2>/dev/null) || return 2
  runs=$(_ol_pbs_field "$text" run_count) || runs=1
  printf '%d\n' "$((runs > 0 ? runs - 1 : 0))"
}

# One line per chunk or rank in the file; the first is the host that runs the script.
ol_sched_nodes() { awk '!seen[$0]++' "$PBS_NODEFILE"; }
ol_sched_submit_dir() { printf '%s\n' "${PBS_O_WORKDIR:-$PWD}"; }

# A node that dies is not seen for minutes (pbs-facts, section 6): lib/pulse.sh looks.
ol_sched_overlooks_nodes() { :; }

# The job lives on without that node; it cannot be the first one, which has the status of no connection (pbs-facts 6).
ol_sched_release() {
  local answer
  answer=$(_ol_pbs_ask pbs_release_nodes "$(_ol_pbs_vnode "$1")" 2>&1) && return
  [[ $answer == *"primary execution host"* ]] && return 1
  return 2
}

# The text of a shell for `-S`. By default a login shell stands above the script: it dies of each signal that the
# script would handle, and its death is the job's exit status (pbs-facts 1, 2). This one becomes the script.
# shellcheck disable=SC2016 # expanded by that shell
ol_sched_shell_text() { printf '#!/bin/bash\nIFS= read -r script\nexec /bin/bash -l "$script"\n'; }

# One file for one list of hosts, however often it is asked for: for weeks, each minute.
_ol_pbs_hostfile() { # NODES
  local sum file part
  sum=$(cksum <<<"$1")
  file=$OUTLAST_STATE/hosts.${sum// /.}
  part=$file.$BASHPID
  [[ -s $file ]] || { tr , '\n' <<<"$1" >"$part" && mv -f -- "$part" "$file"; }
  printf '%s\n' "$file"
}

# pbs_tmrsh and ssh carry no environment, so one remote process a node runs CMD as it is.
_ol_pbs_remote() { # HOST CMD...
  local host=$1 words
  shift
  printf -v words '%q ' "$@"
  case $OUTLAST_LAUNCHER in
    mpich-tmrsh) pbs_tmrsh "$host" /bin/bash -c "$words" ;;
    *) ssh -n -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=accept-new "$host" "$words" ;;
  esac
}

ol_sched_on_each() {
  local limit_s=$1 hosts=$2 each host pids=() pid status=0
  shift 2
  if [[ $OUTLAST_LAUNCHER == pals ]]; then
    IFS=, read -ra each <<<"$hosts"
    timeout -k 5 "$limit_s" mpiexec -n "${#each[@]}" --ppn 1 --hostfile "$(_ol_pbs_hostfile "$hosts")" "$@"
    return
  fi
  for host in ${hosts//,/ }; do
    timeout -k 5 "$limit_s" bash -c "$(declare -f _ol_pbs_remote); OUTLAST_LAUNCHER=$OUTLAST_LAUNCHER; _ol_pbs_remote \"\$@\"" _ "$host" "$@" &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || status=1
  done
  return "$status"
}

ol_sched_launch() {
  local hosts=$1 ranks_per_node=$2 each file args=()
  shift 2
  IFS=, read -ra each <<<"$hosts"
  file=$(_ol_pbs_hostfile "$hosts")
  args=(-n "$((${#each[@]} * ranks_per_node))" -ppn "$ranks_per_node")
  case $OUTLAST_LAUNCHER in
    # By default both end all ranks as soon as one has failed, and most would not come to say how they died.
    # No --line-buffer: a progress bar ends its lines with \r, and would be seen when training is over.
    pals) args+=(--hostfile "$file" --envall --label --no-abort-on-failure) ;;
    mpich-tmrsh) args+=(-f "$file" -launcher rsh -launcher-exec "$(_ol_pbs_rsh)" -genvall -prepend-rank -disable-auto-cleanup) ;;
    *) args+=(-f "$file" -launcher ssh -genvall -prepend-rank -disable-auto-cleanup) ;;
  esac
  exec "$(_ol_pbs_mpiexec)" "${args[@]}" "${OUTLAST_LAUNCH_ARGS[@]}" "$@" </dev/null
}

# PBS has a script of its own by the name of mpiexec, which may come first in PATH (pbs-facts 5).
_ol_pbs_mpiexec() {
  local program=mpiexec
  [[ $OUTLAST_LAUNCHER == pals ]] || ! type -P mpiexec.hydra >/dev/null || program=mpiexec.hydra
  printf '%s\n' "$program"
}

# Hydra gives one string of words; without a shell its quoted path is not found and mpiexec hangs.
_ol_pbs_rsh() {
  local file=$OUTLAST_STATE/rsh
  # shellcheck disable=SC2016 # expanded by the wrapper
  printf '#!/bin/bash\nh=$1\nshift\nexec pbs_tmrsh "$h" /bin/bash -c "$*"\n' >"$file"
  chmod 0700 "$file"
  printf '%s\n' "$file"
}

# mpiexec forwards TERM to its ranks on all hosts (pbs-facts 3). A save signal goes to the shims themselves.
ol_sched_signal_launch() {
  case $2 in
    stop) kill -s TERM "$1" 2>/dev/null ;;
    save) _ol_pbs_signal_ranks USR1 shims "$OUTLAST_NODE_LIST" ;;
  esac
}

# On these hosts, to all processes of this launch or to its shims. The launcher's command line holds the text of a shim
# as well, and its environment the token.
_ol_pbs_signal_ranks() { # SIGNAL all|shims NODES
  # shellcheck disable=SC2016 # expanded on the node
  ol_sched_on_each 30 "$3" bash -c \
    'for e in /proc/[0-9]*/environ; do
      p=${e//[!0-9]/}
      [[ -O $e && $p != $$ ]] && grep -qzFx "OUTLAST_TOKEN=$1" "$e" 2>/dev/null || continue
      [[ $3 == all ]] || { mapfile -d "" -n 4 -t w <"/proc/$p/cmdline" && [[ "${w[0]} ${w[1]} ${w[3]}" == "bash -c outlast-rank" ]]; } || continue
      kill -s "$2" "$p"
    done 2>/dev/null; true' _ "$OUTLAST_TOKEN" "$1" "$2" 2>/dev/null
}

# Ranks of other hosts may outlive their mpiexec. One host that is dead would keep PALS from reaching the others.
ol_sched_kill_launch() {
  local tick hosts=() down node list=''
  kill -s TERM "$1" 2>/dev/null
  for ((tick = 0; tick < 50; tick++)); do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  kill -s KILL "$1" 2>/dev/null
  IFS=, read -ra hosts <<<"$OUTLAST_NODE_LIST"
  down=$(ol_sched_down_nodes "${hosts[@]}" && cat "$OUTLAST_STATE/dead" 2>/dev/null)
  for node in "${hosts[@]}"; do
    [[ $'\n'$down$'\n' == *$'\n'"$node"$'\n'* ]] || list+=${list:+,}$node
  done
  [[ -z $list ]] || _ol_pbs_signal_ranks KILL all "$list"
  return 0
}
