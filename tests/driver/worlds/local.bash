# shellcheck shell=bash
# tests/driver/worlds/local.bash - the questions' world for lib/scheduler/local.sh: a queue in the tests' own folder
#
# What it sets and defines is described in worlds/slurm.bash.
# shellcheck disable=SC2034 # world.bash reads them
{
  world_folder=$BATS_FILE_TMPDIR/folder
  world_disk=$world_folder
  world_user=$UID
  world_nodes=1
  world_lacks='nodes exclude hold requeue node_failure preemption strangers hang refuse drop'
}
local_queue="$BATS_FILE_TMPDIR/the queue"

world_up() {
  mkdir "$world_folder" "$local_queue.d"
  world_alive
}
# A job or a rank that heeds nothing would outlive its folder, in which it is told to end; and a runner writes down how
# its job ended, so the folder stays until there is none.
world_down() {
  pkill -KILL -f -- "$BATS_FILE_TMPDIR/" || true
  until_true no_runner
}
no_runner() {
  local file pid _
  for file in "$local_queue.d"/*/pid; do
    ! { [[ -e $file ]] && read -r pid _ <"$file" && kill -0 "$pid" 2>/dev/null; } || return 1
  done
}
world_as_user() { (cd "$world_folder" && env -u OUTLAST_LOCAL_JOB OUTLAST_LOCAL_QUEUE="$local_queue" "$@"); }

world_head() {
  printf '#!/bin/bash -l\nOUTLAST_WALLTIME_S=%d\n' "$2"
}

# A queue that is there and cannot be read, not even by root: a link to itself, put in place of the right one at once.
world_dead() { link_queue "$local_queue"; }
world_alive() { link_queue "$local_queue.d"; }
link_queue() { ln -s "$1" "$local_queue.new" && mv -T "$local_queue.new" "$local_queue"; }

world_limit() { world_shorten "$1" 0; }
world_shorten() { printf '%d\n' "$(($(date +%s) + $2))" >"$local_queue/$1/end_time"; }
