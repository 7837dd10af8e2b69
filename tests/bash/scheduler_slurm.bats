#!/usr/bin/env bats
# lib/scheduler/slurm.sh, with commands that say what Slurm 22.05.8 said in tests/lab (tests/fixtures/slurm)
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  # shellcheck source=lib/scheduler/slurm.sh
  source "$ROOT/lib/scheduler/slurm.sh"
  export STUB=$BATS_TEST_TMPDIR/stub
  mkdir "$STUB"
  : >"$STUB/calls"
  PATH=$ROOT/tests/stubs:$PATH
  SCRIPT=$BATS_TEST_TMPDIR/job.sh
  : >"$SCRIPT"
}

# NAME says TEXT and ends with CODE (0).
says() { printf '%s\n' "$2" >"$STUB/$1.out" && printf '%s\n' "${3:-0}" >"$STUB/$1.rc"; }
complains() { printf '%s\n' "$2" >"$STUB/$1.err" && printf '%s\n' "${3:-1}" >"$STUB/$1.rc" && : >"$STUB/$1.out"; }
called() { grep -qx -- "$1" "$STUB/calls"; }
# The line of tests/fixtures/slurm/jobs.txt by that name is what scontrol prints.
seen() { says scontrol "$(sed -n "s/^$1 //p" "$ROOT/tests/fixtures/slurm/jobs.txt")"; }
state() { run -0 ol_sched_state "$1" && printf '%s' "$output"; }

# ---- what tells the endings apart

@test "slurm_state: inside the TERM trap, row by row" {
  local row id words
  while read -r row id words; do
    seen "$row"
    SLURM_JOB_ID=$id
    [ "$(state "$id")" = "$words" ]
  done <<'END'
signal     1 state=running verdict=none restarts=0
walltime   3 state=ending verdict=timelimit restarts=0
node       4 state=ended verdict=node restarts=0
held       6 state=ending verdict=requeued restarts=1
requeued   5 state=ending verdict=requeued restarts=1
preempted  7 state=ending verdict=preempted restarts=0
cancelled  2 state=ending verdict=cancelled restarts=0
grace     14 state=running verdict=preempted restarts=0
END
}

@test "slurm_state: of another job, row by row" {
  local row words
  SLURM_JOB_ID=99
  while read -r row words; do
    seen "$row"
    [ "$(state 5)" = "$words" ]
  done <<'END'
pending         state=pending verdict=none restarts=0
running         state=running verdict=none restarts=0
leaving         state=ending verdict=none restarts=0
completed       state=ended verdict=ok restarts=0
failed          state=ended verdict=failed restarts=0
timeout         state=ended verdict=timelimit restarts=0
cancelled_after state=ended verdict=cancelled restarts=0
node_after      state=ended verdict=node restarts=0
END
}

@test "slurm_state: a job that was requeued before is not being requeued now" {
  seen requeued
  SLURM_JOB_ID=5 SLURM_RESTART_COUNT=1
  [ "$(state 5)" = "state=ending verdict=cancelled restarts=1" ]
}

@test "slurm_state: a job that could be preempted and is not" {
  seen signal
  sed -i 's/ SuspendTime=/ PreemptEligibleTime=2026-11-29T20:21:25 PreemptTime=None&/' "$STUB/scontrol.out"
  [ "$(state 1)" = "state=running verdict=none restarts=0" ]
}

@test "slurm_state: states that a job passes through are not its end" {
  local name
  seen running
  for name in SUSPENDED STOPPED SIGNALING RESIZING CONFIGURING STAGE_OUT; do
    sed -i -E "s/JobState=[A-Z_]+/JobState=$name/" "$STUB/scontrol.out"
    [[ "$(state 5)" != state=ended* ]]
  done
}

@test "slurm_state: requeued jobs that wait, in whatever way, are pending" {
  local name
  seen pending
  for name in REQUEUED REQUEUE_HOLD REQUEUE_FED SPECIAL_EXIT RESV_DEL_HOLD; do
    sed -i -E "s/JobState=[A-Z_]+/JobState=$name/" "$STUB/scontrol.out"
    [[ "$(state 5)" == state=pending* ]]
  done
}

@test "slurm_state: an end with a memory limit or a node that did not boot" {
  seen failed
  sed -i s/JobState=FAILED/JobState=OUT_OF_MEMORY/ "$STUB/scontrol.out"
  [ "$(state 5)" = "state=ended verdict=failed restarts=0" ]
  sed -i s/JobState=OUT_OF_MEMORY/JobState=BOOT_FAIL/ "$STUB/scontrol.out"
  [ "$(state 5)" = "state=ended verdict=node restarts=0" ]
}

@test "slurm_state: 1 for an id that Slurm does not know" {
  complains scontrol 'slurm_load_jobs error: Invalid job id specified'
  run -1 ol_sched_state 9999
}

@test "slurm_state: 2 when the controller is stopped, hangs, or says what we do not know" {
  local words
  for words in 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' \
    'slurm_load_jobs error: Socket timed out on send/recv operation' 'segmentation fault' ''; do
    complains scontrol "$words"
    run -2 ol_sched_state 5
  done
  says scontrol 'No jobs in the system'
  run -2 ol_sched_state 5
}

@test "slurm_state: 2 when the command itself hangs, within the caller's limit" {
  seen running
  touch "$STUB/scontrol.hangs"
  OUTLAST_QUERY_LIMIT_S=1 run -2 ol_sched_state 5
  rm "$STUB/scontrol.hangs"
}

# ---- submit

@test "slurm_submit: prints the id; each option has its word" {
  says sbatch 4711
  run -0 ol_sched_submit "$SCRIPT" demo.4 depend=7 exclude=n1,n2 delay_s=60 output=/lake/%j.out dir="/lake/my project"
  [ "$output" = 4711 ]
  called "sbatch --parsable --job-name=demo.4 --dependency=afterany:7 --exclude=n1,n2 --begin=now+60seconds --output=/lake/%j.out --chdir=/lake/my project $SCRIPT"
}

@test "slurm_submit: what is not asked for is not said, and options of other schedulers are passed over" {
  says sbatch 4711
  run -0 ol_sched_submit "$SCRIPT" demo.4 exclude= delay_s=0 shell=/lake/shell
  run ! grep -E 'begin|shell|exclude=n' "$STUB/calls"
}

@test "slurm_submit: a cluster's name behind the id, and a site's words around it, are not the id" {
  says sbatch '4711;frontier'
  run -0 ol_sched_submit "$SCRIPT" demo.4
  [ "$output" = 4711 ]
  printf 'sbatch: lua: account set to abc123\n' >"$STUB/sbatch.err"
  run -0 ol_sched_submit "$SCRIPT" demo.4
  [ "$output" = 4711 ]
  says sbatch $'4711\nsbatch: NOTE: 3 node hours will be charged'
  run -0 ol_sched_submit "$SCRIPT" demo.4
  [ "$output" = 4711 ]
}

@test "slurm_submit: success without an id is no answer: it may have worked" {
  says sbatch 'Welcome to the machine'
  run -2 ol_sched_submit "$SCRIPT" demo.4
}

@test "slurm_submit: 1, with the reason on stderr, when it is refused for good" {
  local words
  while read -r words; do
    complains sbatch "$words"
    run -1 --separate-stderr ol_sched_submit "$SCRIPT" demo.4
    [ "$output" = "" ]
    # shellcheck disable=SC2154 # run sets it
    [ "$stderr" = "$words" ]
  done <<'END'
sbatch: error: Batch job submission failed: Invalid node name specified
sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified
sbatch: error: Batch job submission failed: Invalid qos specification
sbatch: error: Batch job submission failed: Invalid partition name specified
sbatch: error: Batch job submission failed: Invalid feature specification
sbatch: error: AssocMaxSubmitJobLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)
sbatch: error: Unable to open file /nosuch/script
END
  complains sbatch 'sbatch: error: Invalid --time specification' 255
  run -1 ol_sched_submit "$SCRIPT" demo.4
}

@test "slurm_submit: 2 when nobody can say whether it worked" {
  local words
  while read -r words; do
    complains sbatch "$words"
    run -2 ol_sched_submit "$SCRIPT" demo.4
  done <<'END'
sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)
sbatch: error: Batch job submission failed: Socket timed out on send/recv operation
sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received
sbatch: error: Batch job submission failed: Unexpected message received
sbatch: error: Batch job submission failed: Slurm backup controller in standby mode
sbatch: error: Batch job submission failed: Resource temporarily unavailable
sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying
sbatch: error: Batch job submission failed: Protocol authentication error
sbatch: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"
END
  complains sbatch ''
  run -2 ol_sched_submit "$SCRIPT" demo.4
}

@test "slurm_submit: the parent's shape and the user's SBATCH_* do not reach the child, SLURM_CONF does" {
  says sbatch 4711
  export SLURM_NTASKS=8 SLURM_JOB_ID=7 SBATCH_TIMELIMIT=1 SLURM_CONF=/etc/slurm/slurm.conf SLURM_TRES_PER_TASK=cpu=2
  run -0 ol_sched_submit "$SCRIPT" demo.4
  [ "$(grep -E '^(SLURM|SBATCH)_' "$STUB/sbatch.env")" = SLURM_CONF=/etc/slurm/slurm.conf ]
  [ "$SLURM_NTASKS" = 8 ]
}

# ---- find, cancel, times, nodes

@test "slurm_find: 0 with the id, 1 without one, 2 without an answer" {
  says squeue 13
  run -0 ol_sched_find demo.4
  [ "$output" = 13 ]
  called 'squeue --me --noheader --name=demo.4 --states=PD,R,CF,S --format=%i'
  says squeue $'13\n14'
  run -0 ol_sched_find demo.4
  [ "$output" = 13 ]
  : >"$STUB/squeue.out"
  run -1 ol_sched_find demo.4
  complains squeue 'slurm_load_jobs error: Socket timed out on send/recv operation'
  run -2 ol_sched_find demo.4
}

@test "slurm_cancel: all ids in one call, 2 without an answer" {
  run -0 ol_sched_cancel 9 10
  called 'scancel 9 10'
  complains scancel 'scancel: error: Kill job error on job id 1: Unable to contact slurm controller (connect failure)' 8
  run -2 ol_sched_cancel 9
}

@test "slurm_end_time: UTC seconds of what squeue prints in local time; 2 for anything else" {
  says squeue 2026-11-29T20:26:04
  TZ=UTC run -0 ol_sched_end_time 5
  [ "$output" = 1795983964 ]
  TZ=EST5 run -0 ol_sched_end_time 5
  [ "$output" = 1796001964 ]
  local words
  for words in N/A Unknown ''; do
    says squeue "$words"
    run -2 ol_sched_end_time 5
  done
  complains squeue 'slurm_load_jobs error: Invalid job id specified'
  run -2 ol_sched_end_time 9999
}

@test "slurm: how a profile has squeue and sinfo print changes no answer" {
  mkdir "$BATS_TEST_TMPDIR/plain"
  PATH=$BATS_TEST_TMPDIR/plain:$PATH
  # shellcheck disable=SC2016 # expanded by the fake
  printf '%s\n' '#!/bin/bash' '[[ -z ${SQUEUE_STATES-}${SINFO_FORMAT-} && $SLURM_TIME_FORMAT == standard ]] && echo 2026-11-29T20:26:04' \
    >"$BATS_TEST_TMPDIR/plain/squeue"
  chmod +x "$BATS_TEST_TMPDIR/plain/squeue"
  export SLURM_TIME_FORMAT=relative SQUEUE_STATES=PD SINFO_FORMAT=%N
  TZ=UTC run -0 ol_sched_end_time 5
  [ "$output" = 1795983964 ]
}

@test "slurm_known_nodes: those that the cluster has, each once, whole names only" {
  says sinfo $'frontier00001\nfrontier00001\nfrontier00002\nfrontier00002'
  run -0 ol_sched_known_nodes frontier00002 nosuch frontier0000 frontier00001
  [ "${lines[*]}" = "frontier00002 frontier00001" ]
  complains sinfo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)'
  run -2 ol_sched_known_nodes frontier00001
}

@test "slurm_down_nodes: asks about all in one call, and names each once, however many partitions it is in" {
  says sinfo $'frontier00002\nfrontier00002'
  run -0 ol_sched_down_nodes frontier00001 frontier00002
  [ "$output" = frontier00002 ]
  called 'sinfo --noheader --Node --states=down,fail --nodes=frontier00001,frontier00002 --format=%N'
}

# ---- inside a job

@test "slurm_job_id: refuses outside a job, and in a shell that salloc left on the login node" {
  unset SLURM_JOB_ID SLURMD_NODENAME
  run -1 ol_sched_job_id
  [[ $output == *"sbatch SCRIPT"* ]]
  SLURM_JOB_ID=7
  run -1 ol_sched_job_id
  [[ $output == *"srun --overlap"* ]]
  SLURMD_NODENAME=frontier00001
  run -0 ol_sched_job_id
  [ "$output" = 7 ]
}

@test "slurm_restart: 0 in the first run, which has no such variable" {
  unset SLURM_RESTART_COUNT
  [ "$(ol_sched_restart)" = 0 ]
  SLURM_RESTART_COUNT=2
  [ "$(ol_sched_restart)" = 2 ]
}

@test "slurm_launch: one srun for the nodes and ranks, its words unchanged, Slurm's own reactions off" {
  OUTLAST_LAUNCH_ARGS=(--gpu-bind=closest)
  run -0 ol_sched_launch n1,n2 8 bash -c 'echo a  b' rank
  local call
  call=$(cat "$STUB/calls")
  [[ $call == "srun --export=ALL --overlap "*" --nodes=2 --ntasks=16 --ntasks-per-node=8 --nodelist=n1,n2 "*"--kill-on-bad-exit=0 --wait=0 --label --input=none --gpu-bind=closest bash -c echo a  b rank" ]]
}

@test "slurm: more nodes than one word of a command line may name stand in a file, a path with a slash" {
  local file list=nid000000 number
  for ((number = 1; number < 12000; number++)); do
    printf -v list '%s,nid%06d' "$list" "$number"
  done
  ol_sched_on_each 10 "$list" true
  file=$(sed -n 's/.* --nodelist=\([^ ]*\) .*/\1/p' "$STUB/calls")
  [[ $file == /* ]]
  [ "$(wc -l <"$file")" = 12000 ]
  [ "$(sed -n '1p;$p' "$file" | paste -sd' ')" = "nid000000 nid011999" ]
  ol_sched_on_each 10 "$list" true
  [ "$(find "$OUTLAST_STATE" -name 'nodelist.*')" = "$file" ]
}

@test "slurm_launch: a spare in the place of a lost node keeps that place, though srun sorts names" {
  OUTLAST_STATE=$BATS_TEST_TMPDIR
  ol_sched_nodes() { printf 'n%d\n' 1 2 3 4; }
  run -0 ol_sched_launch n1,n4,n3 2 hostname
  [[ $(tail -n 1 "$STUB/calls") == *" --nodes=3 --ntasks=6 --distribution=arbitrary --kill-on-bad-exit=0 "* ]]
  [ "$(paste -sd' ' "$OUTLAST_STATE/places")" = 'n1 n1 n4 n4 n3 n3' ]
  run -0 ol_sched_launch n1,n3,n4 2 hostname
  [[ $(tail -n 1 "$STUB/calls") == *" --nodelist=n1,n3,n4 --distribution=block "* ]]
}

@test "slurm_nodes: the hosts of the job, and 2 when the command fails or hangs, within the caller's limit" {
  SLURM_JOB_NODELIST='n[1-2]'
  says scontrol $'n1\nn2'
  run -0 ol_sched_nodes
  [ "$output" = $'n1\nn2' ]
  called 'scontrol show hostnames n\[1-2\]'
  complains scontrol 'scontrol: fatal: could not establish a configuration source'
  run -2 ol_sched_nodes
  touch "$STUB/scontrol.hangs"
  OUTLAST_QUERY_LIMIT_S=1 run -2 ol_sched_nodes
  rm "$STUB/scontrol.hangs"
}

@test "slurm_on_each: once on each node, within its limit" {
  run -0 ol_sched_on_each 5 n1,n2,n3 hostname
  [[ $(cat "$STUB/calls") == *"--nodes=3 --ntasks=3 --ntasks-per-node=1 "*"--nodelist=n1,n2,n3 "*" hostname" ]]
  touch "$STUB/srun.hangs"
  run -124 ol_sched_on_each 1 n1 hostname
  rm "$STUB/srun.hangs"
}

@test "slurm_signal_launch: save is USR1 and stop is USR2, to srun" {
  (trap 'echo usr1 >>"$STUB/got"' USR1 && trap 'echo usr2 >>"$STUB/got"; exit' USR2 && : >"$STUB/ready" && while :; do sleep 0.05; done) &
  local pid=$!
  ends_with_the_test "$pid"
  until_true test -e "$STUB/ready"
  ol_sched_signal_launch "$pid" save
  until_true grep -qs usr1 "$STUB/got"
  ol_sched_signal_launch "$pid" stop
  status_of wait "$pid"
  grep -q usr2 "$STUB/got"
}

@test "slurm_kill_launch: TERM is enough for an srun that lives" {
  sleep 60 &
  local pid=$!
  until_true grep -q sleep "/proc/$pid/comm" # before that it is a bash that has a trap
  status_of ol_sched_kill_launch "$pid"
  status_of wait "$pid"
  [ "$status" = 143 ]
  [ ! -s "$STUB/calls" ]
}

@test "slurm_release: the job keeps its other nodes, and its shell knows" {
  says scontrol $'n1\nn2\nn3'
  SLURM_JOB_ID=7 SLURM_JOB_NODELIST='n[1-3]'
  ol_sched_release n2
  called 'scontrol update jobid=7 NodeList=n1,n3'
  [ "$SLURM_JOB_NODELIST" = n1,n3 ]
}

@test "slurm_release: 1 for the first node and for one that is not the job's; 2 without an answer" {
  says scontrol $'n1\nn2'
  SLURM_JOB_ID=7 SLURM_JOB_NODELIST='n[1-2]'
  run -1 ol_sched_release n1
  run -1 ol_sched_release n3
  run ! called 'scontrol update jobid=7 NodeList=n1,n2'
  ol_sched_nodes() { printf 'n1\nn2\n'; }
  complains scontrol 'Unable to contact slurm controller (connect failure)'
  run -2 ol_sched_release n2
}

@test "slurm_reasons: in the form that outlast badnodes import reads; 2 without an answer" {
  says sinfo 'Not responding  slurm  2026-11-29T18:00:00  frontier[00001-00002]'
  run -0 ol_sched_reasons
  called "sinfo --noheader --list-reasons --format=%E  %u  %H  %N"
  complains sinfo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)'
  run -2 ol_sched_reasons
}
