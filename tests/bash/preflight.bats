#!/usr/bin/env bats
# A job and the answers of its nodes: who is asked, how long, and what follows
# shellcheck disable=SC2030,SC2031,SC2034 # a test is a subshell, and that is wanted
load job
load node

# A healthy root is made once; the sick ones are made where they are wanted.
setup_file() {
  BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR a_node amd
}

# Nodes n1, n2, ...: each one's root is in $SCHED/root.HOST; a file silent.HOST there: it gives no answer; late.HOST: none
# in time; hangs: the launcher
# does not come back.
setup() {
  a_job
  OUTLAST_HOSTS=(n1 n2 n3 n4) OUTLAST_NODES=3 OUTLAST_PREFLIGHT=1 OUTLAST_LOCAL_BASE=$BATS_TEST_TMPDIR/disk
  # shellcheck disable=SC2153 # both names exist
  OUTLAST_RUNS_DIR=${OUTLAST_RUN_DIR%/*}
  OUTLAST_CHECK_LIMIT_S=20 OUTLAST_CHECK_LOCAL_FS='.*' OUTLAST_CHECK_GPU_TOOL='' OUTLAST_CHECK_GPUS=0 OUTLAST_CHECK_SKIP='route local_disk'
  echo /home >"$OUTLAST_RUN_DIR/project_dir"
  ol_environment_master() { echo 127.0.0.1; }
  ol_site_modules() { :; }
  for host in "${OUTLAST_HOSTS[@]}"; do a_host "$host" amd; done
  ol_sched_on_each() {
    local host gone=''
    printf 'on_each %s\n' "$2" >>"$SCHED/told"
    for host in ${2//,/ }; do
      [[ ! -e $SCHED/silent.$host ]] || { gone=1 && continue; }
      [[ $3 != true && ! -e $SCHED/late.$host ]] || continue
      SLURMD_NODENAME=$host "${@:3:2}" "${5/OUTLAST_SYSROOT=\'\'/OUTLAST_SYSROOT=$SCHED/root.$host}" &
    done
    [[ ! -e $SCHED/hangs ]] || hang
    wait
    [[ -z $gone ]]
  }
}

# As something that does not come back; its process ends with the test.
hang() {
  sleep 1000 &
  printf '%d\n' "$!" >>"$SCHED/hanging"
  wait "$!"
}

teardown() {
  local pid
  while read -r pid; do kill "$pid" 2>/dev/null || true; done 2>/dev/null <"$SCHED/hanging" || true
}

a_host() { # HOST FIXTURE
  local made=$BATS_FILE_TMPDIR/amd.healthy
  set +T
  if [[ $2 != amd ]]; then
    a_node "$2"
    made=$OUTLAST_SYSROOT
    unset OUTLAST_SYSROOT
  fi
  rm -rf "$SCHED/root.$1"
  cp -R "$made" "$SCHED/root.$1"
  printf 'MemTotal: 527894528 kB\nMemAvailable: 515894528 kB\n' >"$SCHED/root.$1/proc/meminfo"
  set -T
}

looks() { status_of ol_preflight 2>>"$OUTLAST_STATE/job.log"; }

@test "preflight: all are well, nothing follows, and the ledger says how many were asked" {
  looks
  [ "$status" = 0 ]
  [[ $(event preflight) == *'"nodes":4,"ok":'*',"bad":0,"unknown":0,"seconds":'*',"blamed":"","site":""}' ]]
  [ -z "$(event excluded)" ]
  told 'on_each n1,n2,n3,n4'
}

@test "preflight: a node that has lost a GPU is left out for that, and the rest suffice" {
  a_host n3 amd/gpu_lost
  looks
  [ "$status" = 0 ]
  [[ $(event preflight) == *'"blamed":"n3:gpu_count"'* ]]
  [[ $(event excluded) == *'"nodes":"n3","why":"health_check_gpu_count"'* ]]
  ol_nodes_pick
  [ "$OUTLAST_NODE_LIST" = n1,n2,n4 ]
}

@test "preflight: two bad nodes for two reasons leave too few: unhealthy" {
  a_host n2 amd/gpu_lost
  a_host n3 amd/pages_pending
  looks
  [ "$status $OUTLAST_PREFLIGHT_CLASS" = "1 unhealthy" ]
  [[ $OUTLAST_WHY == 'preflight: 2 of 4 nodes are left'* ]]
  grep -q '"why":"health_check_gpu_remap"' "$OUTLAST_STATE/events.jsonl"
}

@test "preflight: what all nodes have is the site's, and the job goes on" {
  OUTLAST_CHECK_GPUS=9
  looks
  [ "$status" = 0 ]
  [[ $(event preflight) == *'"blamed":"","site":"gpu_count (4)"'* ]]
  [ -z "$(event excluded)" ]
  grep -q 'gpu_count is bad on 4 of 4 nodes' "$OUTLAST_STATE/job.log"
}

@test "preflight: a node that does not answer is left out" {
  touch "$SCHED/silent.n4"
  looks
  [ "$status" = 0 ]
  [[ $(event excluded) == *'"nodes":"n4","why":"health_check_answer"'* ]]
}

@test "preflight: a node whose checks came too late and that is reached is not blamed, nor one of which nobody can say" {
  touch "$SCHED/late.n2" "$SCHED/silent.n4"
  looks
  [ "$status" = 0 ]
  [[ $(event excluded) == *'"nodes":"n4","why":"health_check_answer"'* ]]
  grep -q $'^n2\tanswer\tunknown\tno checks in time.*\tpass$' "$OUTLAST_STATE/preflight"
  rm "$OUTLAST_STATE/events.jsonl"
  OUTLAST_DROPPED=''
  ol_reach_silent() { return 2; }
  looks
  [ -z "$(event excluded)" ]
  [[ $(event preflight) == *'"blamed":""'* ]]
}

@test "preflight: a launcher that hangs is waited for until the time is up" {
  touch "$SCHED"/silent.n{1,2,3,4} "$SCHED/hangs"
  _ol_preflight_limit_s() { echo 1; }
  looks
  [ "$status" = 0 ]
  [[ $(event warned) == *'no node answered'* ]]
}

@test "preflight: nobody waits for the launcher once all have answered" {
  touch "$SCHED/hangs"
  _ol_preflight_limit_s() { echo 600; }
  looks
  [ "$status" = 0 ]
  [ -z "$(event excluded)" ]
}

@test "preflight: without any answer nobody is blamed, and the launch shows what is wrong" {
  ol_sched_on_each() { echo 'srun: error: Unable to create step' >&2 && return 1; }
  looks
  [ "$status" = 0 ]
  [[ $(event warned) == *'nothing was checked: no node answered'* ]]
  [ -z "$(event excluded)" ]
}

@test "preflight: a job that is told to end does not wait for answers" {
  touch "$SCHED/hangs" "$SCHED/silent.n1" "$OUTLAST_STATE/term"
  _ol_preflight_limit_s() { echo 600; }
  looks
  [ "$status" = 2 ]
}

@test "preflight: a shared file system that answers nobody is asked again, and then a later job tries" {
  rm "$OUTLAST_RUN_DIR/project_dir"
  ol_bounded_nap() { sleep 0.01; }
  looks
  [ "$status $OUTLAST_PREFLIGHT_CLASS" = "1 storage" ]
  [ "$(grep -c on_each "$SCHED/told")" = 3 ]
  [ -z "$(event excluded)" ]
}

@test "preflight: errors are remembered, and count when they are new" {
  a_host n2 amd/uncorrectable
  looks
  [[ $(event preflight) == *'"bad":0,"unknown":1,'* ]]
  [ "$(grep -c . "$OUTLAST_RUNS_DIR/node_counters.txt")" = 4 ]
  grep -q '^n2 gpu_ecc 3 [0-9]*$' "$OUTLAST_RUNS_DIR/node_counters.txt"
  looks
  [[ $(event preflight) == *'"bad":0,"unknown":0,'* ]]
  printf 'ue: 9\nce: 0\n' >"$SCHED/root.n2/sys/class/drm/card3/device/ras/umc_err_count"
  looks
  [[ $(event excluded) == *'"nodes":"n2","why":"health_check_gpu_ecc"'* ]]
  grep -q '^n2 gpu_ecc 9 ' "$OUTLAST_RUNS_DIR/node_counters.txt"
}

@test "preflight: counters of other nodes stay, a lock that was left behind is taken, one that is held is not waited for long" {
  printf 'm1 gpu_ecc 4 900\nn1 gpu_ecc 7 900\n' >"$OUTLAST_RUNS_DIR/node_counters.txt"
  printf 'n1\tgpu_ecc\t8\n' >"$OUTLAST_STATE/preflight.counted"
  echo 'elsewhere other:1 1 1' >"$OUTLAST_RUNS_DIR/node_counters.txt.lock"
  touch -d '-3 minutes' "$OUTLAST_RUNS_DIR/node_counters.txt.lock"
  _ol_preflight_keep
  [ "$(cut -d' ' -f 1-3 "$OUTLAST_RUNS_DIR/node_counters.txt" | paste -sd,)" = "m1 gpu_ecc 4,n1 gpu_ecc 8" ]
  [ ! -e "$OUTLAST_RUNS_DIR/node_counters.txt.lock" ]
  echo 'elsewhere other:1 1 1' >"$OUTLAST_RUNS_DIR/node_counters.txt.lock"
  printf 'n1\tgpu_ecc\t9\n' >"$OUTLAST_STATE/preflight.counted"
  run -0 _ol_preflight_keep
  [[ $output == *"could not be kept"* ]]
  grep -q '^n1 gpu_ecc 8 ' "$OUTLAST_RUNS_DIR/node_counters.txt"
}

@test "preflight: what is unknown passes, is bad or holds, as the site says" {
  a_host n2 amd/no_ras
  looks
  [ "$status" = 0 ]
  [[ $(event preflight) == *'"bad":0,"unknown":1,'* ]]
  OUTLAST_CHECK_RULES='gpu_ecc=hold'
  looks
  [ "$status $OUTLAST_PREFLIGHT_CLASS" = "1 held" ]
  [[ $OUTLAST_WHY == 'preflight: gpu_ecc of n2 is unknown'* ]]
  OUTLAST_CHECK_RULES='gpu_ecc=bad'
  looks
  [ "$status" = 0 ]
  [[ $(event excluded) == *'"nodes":"n2","why":"health_check_gpu_ecc"'* ]]
}

@test "preflight: a module that does not load ends it, one that loads nothing is shown" {
  module() {
    [[ $2 != broken ]] || return 1
    [[ $2 == nothing ]] || export LOADEDMODULES=${LOADEDMODULES:-}:$2/1.0
  }
  mkdir "$BATS_TEST_TMPDIR/rocm"
  ol_site_modules() {
    module load rocm && module load nothing && PATH=$PATH:$BATS_TEST_TMPDIR/rocm
  }
  looks
  [ "$status" = 0 ]
  grep -q $'^n1\tmodules\tunknown\tnot in LOADEDMODULES: nothing' "$OUTLAST_STATE/preflight"
  grep -q $'^n2\tmodules\tok\tall there' "$OUTLAST_STATE/preflight"
  ol_site_modules() { module load broken || return; }
  looks
  [ "$status $OUTLAST_PREFLIGHT_CLASS" = "1 launch" ]
  [[ $OUTLAST_WHY == *'code 72' ]]
}

@test "preflight: modules that hang are no reason to wait, nor that there are none" {
  _ol_preflight_limit_s() { echo 1; }
  ol_site_modules() { hang; }
  _ol_preflight_load
  [[ $OL_PREFLIGHT_MODULES == unknown* ]]
  unset -f ol_site_modules
  _ol_preflight_load
  [ -z "$OL_PREFLIGHT_MODULES$OUTLAST_CHECK_FOLDERS" ]
}

@test "preflight: a job that is told to end does not wait for modules" {
  ol_site_modules() { touch "$OUTLAST_STATE/deadline" && hang; }
  _ol_preflight_limit_s() { echo 600; }
  looks
  [ "$status" = 2 ]
  [ ! -s "$SCHED/told" ]
}

@test "preflight: a job that is told to end when the nodes have answered remembers nothing and blames nobody" {
  a_host n3 amd/gpu_lost
  ol_nodejudge() {
    touch "$OUTLAST_STATE/stop"
    printf 'n3\tgpu_count\tbad\t7\t8\tbad\n'
    printf 'n3\tgpu_ecc\t1\n' >"$3"
  }
  looks
  [ "$status" = 2 ]
  [ -z "$(event preflight)$(event excluded)" ]
  [ ! -e "$OUTLAST_RUNS_DIR/node_counters.txt" ]
}

@test "preflight: a long list of the modules' folders is cut between two of them" {
  local at long
  long=$BATS_TEST_TMPDIR/$(printf "%0100d" 0)_name
  mkdir -p "$long"{1..60}
  ol_site_modules() { for at in {1..60}; do PATH=$PATH:$long$at; done; }
  _ol_preflight_load
  ((${#OUTLAST_CHECK_FOLDERS} > 3500 && ${#OUTLAST_CHECK_FOLDERS} <= 4000))
  [ -d "${OUTLAST_CHECK_FOLDERS##*:}" ]
  [[ ${OUTLAST_CHECK_FOLDERS##*:} =~ _name[0-9][0-9]$ ]]
}

@test "preflight: after a requeue nobody is asked for what ranks that are left from before hold" {
  a_host n3 amd/memory_left
  OUTLAST_RESTART=1
  looks
  [ "$status" = 0 ]
  [ -z "$(event excluded)" ]
  grep -q $'^n3\tgpu_count\tok' "$OUTLAST_STATE/preflight"
  [ "$OUTLAST_CHECK_SKIP" = 'route local_disk' ]
  OUTLAST_RESTART=0
  looks
  [[ $(event excluded) == *'"nodes":"n3","why":"health_check_gpu_memory"'* ]]
}

again() { status_of ol_preflight_again 2>>"$OUTLAST_STATE/job.log"; }

@test "preflight_again: a sick one is left out; who is silent, and what a launch has left behind, is not blamed" {
  a_host n2 amd/gpu_lost
  a_host n3 amd/memory_left
  touch "$SCHED/silent.n4"
  again
  [ "$status" = 0 ]
  [ "$(grep -c '"event":"excluded"' "$OUTLAST_STATE/events.jsonl")" = 1 ]
  [[ $(event excluded) == *'"nodes":"n2","why":"health_check_gpu_count"'* ]]
  [[ $(event preflight) == *'"nodes":4,'*'"quick":1}' ]]
  grep -q $'^n4\tanswer\tunknown\tno checks in ten seconds' "$OUTLAST_STATE/preflight"
  [ "$(cat "$SCHED/told")" = 'on_each n1,n2,n3,n4' ]
}

@test "preflight_again: who is out of use is not asked, and a job that wants no preflight asks nobody" {
  ol_nodes_drop node_down n4 2>/dev/null
  again
  [ "$(cat "$SCHED/told")" = 'on_each n1,n2,n3' ]
  OUTLAST_PREFLIGHT=0
  again
  [ "$(wc -l <"$SCHED/told")" = 1 ]
}

@test "preflight_again: a shared file system that is slow is left to the launch" {
  rm "$OUTLAST_RUN_DIR/project_dir"
  again
  [ "$status" = 0 ]
}

@test "preflight: answers that could not be judged are none" {
  ol_nodejudge() { return 1; }
  looks
  [ "$status" = 0 ]
  [ -z "$(event preflight)" ]
  [[ $(event warned) == *'nothing was checked: the answers could not be judged'* ]]
}

@test "preflight: a job that wants none asks nobody" {
  OUTLAST_PREFLIGHT=0
  looks
  [ "$status" = 0 ]
  [ ! -s "$SCHED/told" ]
}
