#!/usr/bin/env bats
# lib/scheduler/pbs.sh: what it says to PBS and its launchers. What they answer is played in tests/lab.
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  local name
  a_job
  # shellcheck source=lib/scheduler/pbs.sh
  source "$ROOT/lib/scheduler/pbs.sh"
  export STUB=$BATS_TEST_TMPDIR/stub
  mkdir "$STUB" "$BATS_TEST_TMPDIR/bin"
  for name in mpiexec mpiexec.hydra qsub qstat qselect qdel qalter pbsnodes pbs_release_nodes; do
    ln -s "$ROOT/tests/stubs/stub" "$BATS_TEST_TMPDIR/bin/$name"
  done
  : >"$STUB/calls"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH
  SCRIPT=$BATS_TEST_TMPDIR/job.sh
  : >"$SCRIPT"
}

@test "pbs_launch: no launcher ends all ranks because one has failed" {
  local launcher option
  OUTLAST_LAUNCH_ARGS=()
  while read -r launcher option; do
    OUTLAST_LAUNCHER=$launcher
    (ol_sched_launch a,b 2 trainer)
    grep -q -- " $option .*trainer" "$STUB/calls"
    : >"$STUB/calls"
  done <<'END'
pals --no-abort-on-failure
mpich-ssh -disable-auto-cleanup
mpich-tmrsh -disable-auto-cleanup
END
}

@test "pbs_launch: a progress bar, which has no line ends, is not held back" {
  OUTLAST_LAUNCH_ARGS=() OUTLAST_LAUNCHER=pals
  (ol_sched_launch a,b 2 trainer)
  run ! grep -q -- line-buffer "$STUB/calls"
}

# NAME WORD...: a process of this launch's, which notes USR1 under its name and goes on.
noting() {
  local name=$1
  shift
  OUTLAST_TOKEN=t "$@" >"$BATS_TEST_TMPDIR/$name" 2>&1 &
  ends_with_the_test "$!"
  until_true grep -q ready "$BATS_TEST_TMPDIR/$name"
}

@test "pbs_signal_launch: a wish to save goes to the shims, not to the launcher, to trainers, or to another launch" {
  local text='ol_shim () { trap "echo USR1" USR1; echo ready; while :; do sleep 0.05; done; }; ol_shim'
  # shellcheck disable=SC2317 # called by ol_sched_signal_launch
  ol_sched_on_each() { shift 2 && "$@"; }
  # shellcheck disable=SC2034 # read by ol_sched_signal_launch
  OUTLAST_TOKEN=t OUTLAST_NODE_LIST=a
  noting shim bash -c "$text" outlast-rank trainer
  noting launcher bash -c "x=1; $text" mpiexec bash -c "$text"
  noting trainer bash -c "x=1; $text"
  noting other env OUTLAST_TOKEN=u bash -c "$text" outlast-rank trainer
  ol_sched_signal_launch "$$" save
  until_true grep -q USR1 "$BATS_TEST_TMPDIR/shim"
  run ! grep -q USR1 "$BATS_TEST_TMPDIR/launcher" "$BATS_TEST_TMPDIR/trainer" "$BATS_TEST_TMPDIR/other"
}

# The driver's look after a submit takes two seconds.
sleep() { [[ $1 == 2 ]] || command sleep "$@"; }

# NAME says TEXT and ends with CODE (0).
says() { printf '%s\n' "$2" >"$STUB/$1.out" && printf '%s\n' "${3:-0}" >"$STUB/$1.rc"; }
called() { grep -qx -- "$1" "$STUB/calls"; }

# What `qstat -xf` says of a job: SUBSTATE COMMENT [Exit_status CODE]; long values go on in lines with a tab.
qstat_says() { # STATE SUBSTATE COMMENT [CODE]
  says qstat "Job Id: 7.srv
    Job_Name = train
    job_state = $1
    Resource_List.walltime = 00:10:00
    stime = Sun Nov 29 22:00:00 2099
    substate = $2
    comment = Job run at Sun Nov 29 at 22:00 on (x1:ncpus=1)+(x2
	:ncpus=1)$3${4:+
    Exit_status = $4}
    run_count = 1"
}

in_job() { # a job on two hosts, whose output is a file
  PBS_JOBID=7.srv PBS_NODEFILE=$BATS_TEST_TMPDIR/nodes
  printf 'x1.domain\nx2.domain\n' >"$PBS_NODEFILE"
  : >"$BATS_TEST_TMPDIR/out"
  exec {OUTLAST_OUT_FD}>>"$BATS_TEST_TMPDIR/out"
  says pbsnodes ''
}

# ---- submit

@test "pbs_submit: the folder of the log is there before the job" {
  says qsub 7.srv
  qstat_says H 22 ''
  run -0 ol_sched_submit "$SCRIPT" train.2 depend=6.srv output="$BATS_TEST_TMPDIR/new/logs/%j.out"
  [ -d "$BATS_TEST_TMPDIR/new/logs" ]
  [ "$output" = 7.srv ]
  called "qsub -N train.2 -W depend=afterany:6.srv -o $BATS_TEST_TMPDIR/new/logs/ $SCRIPT"
}

@test "pbs_submit: without a place for its log there is no job" {
  : >"$BATS_TEST_TMPDIR/file"
  run -1 ol_sched_submit "$SCRIPT" train.2 output="$BATS_TEST_TMPDIR/file/logs/%j.out"
  [[ $output == *"no folder $BATS_TEST_TMPDIR/file/logs"* ]]
  run ! grep -q qsub "$STUB/calls"
}

@test "pbs_submit: a delay is given to the job when it has arrived, not to qsub: a routing queue would forget it" {
  says qsub 7.srv
  qstat_says H 22 ''
  run -0 ol_sched_submit "$SCRIPT" train.2 depend=6.srv delay_s=600
  run ! grep -q '^qsub .*-a ' "$STUB/calls"
  grep -Eqx 'qalter -a [0-9]{12}\.[0-9]{2} 7\.srv' "$STUB/calls"
}

@test "pbs_submit: a job without a parent waits from the start, or it would run before its delay is set" {
  says qsub 7.srv
  qstat_says W 30 ''
  run -0 ol_sched_submit "$SCRIPT" train.2 delay_s=600
  grep -Eqx "qsub -N train.2 -a [0-9]{12}\.[0-9]{2} $SCRIPT" "$STUB/calls"
}

@test "pbs_submit: a job that a routing queue has dropped is refused" {
  says qsub 7.srv
  says qstat '' 153
  run -1 --separate-stderr ol_sched_submit "$SCRIPT" train.2
  [[ $stderr == *"no execution queue takes its nodes and walltime"* ]]
}

@test "pbs_submit: a job that is in the history without having run is refused" {
  says qsub 7.srv
  says qstat $'Job Id: 7.srv\n    job_state = F\n    substate = 92'
  run -1 ol_sched_submit "$SCRIPT" train.2
}

@test "pbs_submit: a submit that nobody can look after counts" {
  says qsub 7.srv
  says qstat '' 255
  run -0 ol_sched_submit "$SCRIPT" train.2
}

@test "pbs_submit: no answer is no refusal" {
  local code
  for code in 162 171 183 185 186 212; do
    says qsub 'some words' "$code"
    run -2 ol_sched_submit "$SCRIPT" train.2
  done
  says qsub 'qsub: cannot connect to server srv (errno=15010)' 1
  run -2 ol_sched_submit "$SCRIPT" train.2
}

@test "pbs_submit: a refusal has PBS's own words" {
  says qsub 'qsub: Job violates queue and/or server resource limits' 188
  run -1 --separate-stderr ol_sched_submit "$SCRIPT" train.2
  [[ $stderr == *"Job violates queue"* ]]
}

@test "pbs_find: only my own jobs" {
  says qselect 7.srv
  USER=alice
  [ "$(ol_sched_find train.2)" = 7.srv ]
  called 'qselect -u alice -N train.2 -s QHRWET'
}

# ---- what tells the endings apart

@test "pbs_state: in the TERM trap, who has deleted the job" {
  in_job
  qstat_says R 42 ' and terminated by root@srv'
  run -0 ol_sched_state 7.srv
  [ "$output" = 'state=ending verdict=cancelled restarts=0 by=root@srv' ]
}

@test "pbs_state: the scheduler that deletes a job has preempted it" {
  local words
  in_job
  for words in ' and terminated by Scheduler@srv' ', Job to be deleted at request of Scheduler@srv'; do
    qstat_says R 42 "$words"
    run -0 ol_sched_state 7.srv
    [[ $output == 'state=ending verdict=preempted restarts=0'* ]]
  done
}

@test "pbs_state: in the TERM trap, what PBS wrote into the job's output" {
  in_job
  qstat_says R 42 ''
  echo '=>> PBS: job killed: node 1 (x2.domain) requested job die, code 15009' >>"$BATS_TEST_TMPDIR/out"
  run -0 ol_sched_state 7.srv
  [ "$output" = 'state=ending verdict=node restarts=0' ]
  [ "$(ol_sched_down_nodes x1.domain x2.domain)" = x2.domain ]
}

@test "pbs_state: the limit is told by the job's output when the clock does not" {
  in_job
  qstat_says R 42 ''
  echo '=>> PBS: job killed: walltime 48 exceeded limit 30' >>"$BATS_TEST_TMPDIR/out"
  run -0 ol_sched_state 7.srv
  [ "$output" = 'state=ending verdict=timelimit restarts=0' ]
}

@test "pbs_state: what the job itself prints about PBS is no word of PBS" {
  in_job
  qstat_says R 42 ''
  echo 'trainer: =>> PBS: job killed: walltime' >>"$BATS_TEST_TMPDIR/out"
  run -0 ol_sched_state 7.srv
  [ "$output" = 'state=running verdict=none restarts=0' ]
}

@test "pbs_down_nodes: down by any of its names, and not when it is only out of service" {
  says pbsnodes 'x1                   offline
x2                   state-unknown,down node down: communication closed
x4.domain            down,offline'
  run -0 ol_sched_down_nodes x1.domain x2-hsn0.domain x3.domain x4.domain
  [ "$output" = $'x2-hsn0.domain\nx4.domain' ]
}

@test "pbs_state, pbs_down_nodes: a node of which a restarted server has not heard yet is not dead" {
  in_job
  qstat_says R 42 ''
  says pbsnodes $'x1                   state-unknown,down \nx2                   state-unknown,down '
  run -0 ol_sched_down_nodes x1.domain x2.domain
  [ "$output" = '' ]
  run -0 ol_sched_state 7.srv
  [ "$output" = 'state=running verdict=none restarts=0' ]
}

@test "pbs_release: by the name that PBS has" {
  run -0 ol_sched_release x1921c1s0b0n0-hsn0.hsn.cm.sunspot.alcf.anl.gov
  called 'pbs_release_nodes x1921c1s0b0n0'
}

@test "pbs_release: 1 for the first host, 2 without an answer" {
  says pbs_release_nodes "pbs_release_nodes: Can't free 'x1' since it's on a primary execution host" 162
  run -1 ol_sched_release x1
  says pbs_release_nodes 'pbs_release_nodes: cannot connect to server srv, error=15010' 162
  run -2 ol_sched_release x2
}

@test "pbs_cancel: what has ended or is ending is cancelled, what is not mine is refused" {
  local code want
  while read -r code want; do
    says qdel 'qdel: words' "$code"
    run "-$want" ol_sched_cancel 7.srv
  done <<'END'
0 0
35 0
153 0
168 0
159 1
162 2
END
}

@test "pbs_state: a question survives the second TERM, which is for all processes of the job, too" {
  in_job
  qstat_says R 42 ' and terminated by alice@srv'
  touch "$STUB/qstat.hangs"
  # In a session of its own, as a script of PBS has; after the first TERM it ignores others.
  export -f ol_sched_state ol_sched_nodes ol_sched_down_nodes _ol_pbs_ask _ol_pbs_call _ol_pbs_field _ol_pbs_verdict _ol_pbs_is_past_end _ol_pbs_end
  # shellcheck disable=SC2016 # expanded by it
  setsid bash -c 'trap "" TERM; ol_sched_state 7.srv >"$1"; exit' _ "$BATS_TEST_TMPDIR/answer" &
  ends_with_the_test "$!"
  until_true grep -q '^qstat' "$STUB/calls"
  pkill -TERM -s "$!"
  rm "$STUB/qstat.hangs"
  until_true grep -q 'verdict=cancelled' "$BATS_TEST_TMPDIR/answer"
}

# ---- ranks

@test "pbs_launch: of MPICH, PBS's own script of that name is not taken" {
  OUTLAST_LAUNCH_ARGS=() OUTLAST_LAUNCHER=mpich-tmrsh
  (ol_sched_launch a,b 2 trainer)
  grep -q '^mpiexec.hydra ' "$STUB/calls"
}

@test "pbs_kill: the living hosts are reached though one is dead" {
  OUTLAST_TOKEN=t1 OUTLAST_NODE_LIST=x1.domain,x2.domain,x3.domain
  ol_sched_on_each() { printf '%s\n' "$2" >"$BATS_TEST_TMPDIR/hosts"; }
  says pbsnodes 'x2                   down'
  sleep 0 &
  run -0 ol_sched_kill_launch "$!"
  [ "$(<"$BATS_TEST_TMPDIR/hosts")" = x1.domain,x3.domain ]
}

@test "pbs_known_nodes: those that PBS has, by any of their names; 2 without an answer" {
  says pbsnodes $'x1b0n0\n     Mom = x1b0n0.hsn.cm\n\nNode: nowhere,  Error: Unknown node ' 1
  run -0 ol_sched_known_nodes x1b0n0.hsn.cm nowhere
  [ "$output" = x1b0n0.hsn.cm ]
  says pbsnodes 'pbsnodes: cannot connect to server lab, error=15010' 1
  run -2 ol_sched_known_nodes x1b0n0
}

@test "pbs_exclude: refused, PBS has none" {
  run -1 ol_sched_exclude 7 x1b0n0
}

@test "pbs_restart: how often the job ran before; 2 without an answer" {
  says qstat $'Job Id: 7.srv\n    run_count = 3'
  PBS_JOBID=7.srv run -0 ol_sched_restart
  [ "$output" = 2 ]
  says qstat 'Connection refused' 255
  PBS_JOBID=7.srv run -2 ol_sched_restart
}

@test "pbs_state: a job that has lost a node, and that PBS has not told to end, is running" {
  in_job
  qstat_says R 42 ''
  says pbsnodes 'x2                   down'
  run -0 ol_sched_state 7.srv
  [ "$output" = 'state=running verdict=node restarts=0' ]
}

@test "pbs_reasons: what pbsnodes says of nodes that are out of service; 2 without an answer" {
  says pbsnodes 'x1                   offline GPU 2 is lost'
  run -0 ol_sched_reasons
  [ "$output" = 'x1                   offline GPU 2 is lost' ]
  says pbsnodes 'pbsnodes: cannot connect to server lab, error=15010' 1
  run -2 ol_sched_reasons
}
