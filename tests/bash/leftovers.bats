#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034 # a test is a subshell, and that is wanted; read by lib/leftovers.sh
load job
load node

setup() {
  a_job
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n1 n2 n3) OUTLAST_NODE_LIST=n1,n2
}

# A process of an earlier launch, in a session of its own.
left_behind() { # TOKEN
  OUTLAST_TOKEN=$1 setsid sleep 1000 &
  STARTED+=("$!")
  until_true grep -qz "^OUTLAST_TOKEN=$1" "/proc/$!/environ"
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }
clear() { status_of ol_leftovers_clear 2>/dev/null; }

@test "leftovers: what this job's launches have left is killed, also from before a requeue; others' is not" {
  OUTLAST_JOB_ID=7.server
  left_behind 7.server.0.000003.1
  left_behind 7.server.1.000004.2
  left_behind 77.server.0.000003.1
  left_behind 7xserver1.0.000003.1
  clear
  [ "$status" = 0 ]
  until_true is_gone "${STARTED[0]}"
  until_true is_gone "${STARTED[1]}"
  kill -0 "${STARTED[2]}"
  kill -0 "${STARTED[3]}"
}

@test "leftovers: a node that does not come clean is dropped, and one that does not answer" {
  ol_reach_failing() { printf 'n2\nn3\n'; }
  ol_reach_silent() { echo n3; }
  clear
  [ "$status" = 3 ]
  [ "$(grep -c '"event":"excluded"' "$OUTLAST_STATE/events.jsonl")" = 2 ]
  [[ $(head -n 1 "$OUTLAST_STATE/events.jsonl") == *'"nodes":"n2","why":"leftovers"'* ]]
  [[ $(event excluded) == *'"nodes":"n3","why":"no_answer"'* ]]
}

@test "leftovers: nobody is dropped by the word of a launcher that does not work, or of all nodes" {
  ol_reach_failing() { printf 'n1\nn2\nn3\n'; }
  ol_reach_silent() { return 2; }
  clear
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == 'nobody can say'* ]]
  ol_reach_silent() { ol_reach_failing; }
  clear
  [ "$status" = 1 ]
  [ "$(event excluded)" = "" ]
}

# Nodes with GPUs, as tests/fixtures/nodes has them; the launcher reaches this machine alone.
gpus() { # STATE
  a_node "amd/$1" && printf 'MemTotal: 1 kB\n' >"$OUTLAST_SYSROOT/proc/meminfo"
  OUTLAST_PREFLIGHT=1 OUTLAST_CHECK_GPU_TOOL=rocm-smi OUTLAST_CHECK_SKIP=''
}

@test "leftovers: GPU memory that becomes free is waited for" {
  gpus memory_left
  export LOOKS=$SCHED/looks
  _ol_nodegpu_used_mib() {
    echo look >>"$LOOKS"
    if (($(wc -l <"$LOOKS") < 3)); then echo 60416; else echo 10; fi
  }
  ol_sched_on_each() { echo asked >>"$SCHED/told" && "${@:3}"; }
  clear
  [ "$status $(cat "$SCHED/told")" = '0 asked' ]
  [ "$(wc -l <"$LOOKS")" = 3 ]
}

@test "leftovers: a node whose GPUs do not become free is dropped for that, not the first one for what our command holds" {
  gpus memory_left
  ol_nodes_pick 2>/dev/null
  _ol_leftovers_memory() { return 1; }
  ol_sched_on_each() { [[ ${5:-} != *_ol_leftovers_memory* ]]; }
  OUTLAST_HOSTS=(n1 n2 n3 n4 n5 n6)
  OUTLAST_ON_DURABLE=(look)
  clear
  [ "$status" = 3 ]
  [[ $(event excluded) == *'"nodes":"n2","why":"gpu_memory"'* ]]
  [ "$(grep -c '"event":"excluded"' "$OUTLAST_STATE/events.jsonl")" = 1 ]
}

@test "leftovers: memory that many have in use, that nobody tells, or that preflight does not look at, is no reason" {
  gpus memory_left
  OUTLAST_NODE_LIST=n1,n2,n3
  ol_sched_on_each() { [[ ${5:-} != *_ol_leftovers_memory* ]]; }
  clear
  [ "$status" = 0 ]
  OUTLAST_CHECK_SKIP=gpu_memory OUTLAST_NODE_LIST=n1,n2
  clear
  [ "$status" = 0 ]
  rm "$OUTLAST_SYSROOT"/sys/class/drm/card*/device/mem_info_vram_used
  run -0 _ol_leftovers_memory
}

@test "leftovers: a tool that hangs tells nothing, is not waited for, and is not left behind" {
  gpus memory_left
  sleep() { command sleep 0.01; }
  _ol_nodegpu_used_mib() {
    command sleep 1000 3>&- &
    echo "$!" >"$SCHED/tool"
    wait
  }
  run -0 _ol_leftovers_memory
  until_true is_gone "$(<"$SCHED/tool")"
}

@test "leftovers: TERM ends the wait" {
  touch "$OUTLAST_STATE/term"
  ol_reach_failing() { sleep 60; }
  clear
  [ "$status" = 2 ]
}
