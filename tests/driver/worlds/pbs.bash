# shellcheck shell=bash
# tests/driver/worlds/pbs.bash - the questions' world for lib/scheduler/pbs.sh: a lab with PBS, LAB=pbs: with the real one
#
# What it sets and defines is described in worlds/slurm.bash.
# shellcheck source=../lab.bash
source "$ROOT/tests/driver/lab.bash"

# shellcheck disable=SC2034 # world.bash reads them
{
  lab_at lus/flare/projects/abc123/alice
  world_nodes=2
  world_lacks='dir exclude preemption'
  # There a dead host takes minutes.
  [[ ${LAB:-} != pbs || -n ${SLOW:-} ]] || world_lacks+=' node_failure'
}

# What takes PBS minutes takes seconds, but a job that is told to end has time for a question.
world_up() { OUTLAST_LAB_SCALE=0.05 OUTLAST_LAB_KILL_SCALE=3 lab_up; }

world_head() {
  local kind=${WORLD_KIND:-plain} queue=capacity rerun=n
  case $kind in
    requeued) rerun=y ;;
    refused) queue=nowhere ;;
    dropped) queue=prod ;; # it routes to a queue from three nodes on
  esac
  printf '#!/bin/bash -l\n'
  printf '#PBS %s\n' '-A abc123' "-q $queue" "-l select=$1" '-l place=scatter' "-l walltime=$2" '-j oe' '-k doe' \
    '-W umask=022' "-r $rerun" "-S $ROOT/lib/scheduler/pbs-shell"
}

world_hold() { world_as_user qhold "$1"; }
# Not earlier than it is old.
world_limit() { world_shorten "$1" 0; }
world_shorten() {
  local start_s
  start_s=$(world_as_user qstat -f "$1" | sed -n 's/^ *stime = //p')
  start_s=$(date -d "$start_s" +%s)
  world_as_user qalter -l "walltime=$(($(date +%s) - start_s + $2 + 1))" "$1"
}
world_requeue() { lab root head /opt/pbs/bin/qrerun "$1" & } # it returns when the job has been killed
world_node_fails() { lab off "$1"; }
world_node_returns() { lab on "$1"; }
