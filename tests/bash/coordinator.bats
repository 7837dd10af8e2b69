#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # text of the stand-in; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  owns_the_run
  OUTLAST_SIDECAR_S=1 OUTLAST_CKPT_COPIER=agents
  mkdir -p "$OUTLAST_RUN_DIR/tool/1.0/outlast/sidecar"
  touch "$OUTLAST_RUN_DIR/tool/1.0/outlast/sidecar/coordinator.py"
}

# What is brought to the other nodes: an agent that consists of this LINE.
the_agent() {
  local module
  mkdir -p "$OUTLAST_LOCAL/py/outlast/sidecar"
  printf '%s\n' "$1" >"$OUTLAST_LOCAL/py/outlast/sidecar/agent.py"
  for module in disk wire; do echo "the $module" >"$OUTLAST_RUN_DIR/tool/1.0/outlast/sidecar/$module.py"; done
}

# Instead of Python: does TEXT. A `beat` is a sign of life.
python() {
  printf '#!/bin/bash\nbeat() { date +%%s >"$OUTLAST_STATE/sidecar_beat"; }\n%s\n' "$1" >"$BATS_TEST_TMPDIR/python"
  chmod +x "$BATS_TEST_TMPDIR/python"
  OUTLAST_PYTHON=$BATS_TEST_TMPDIR/python
}

serves() {
  status_of ol_coordinator_serves 2>>"$OUTLAST_STATE/job.log"
  [[ -z ${OL_COORDINATOR_PID:-} ]] || ends_with_the_test "$OL_COORDINATOR_PID"
}

@test "coordinator: Python is started from the run's own copy, with its secret in no command line" {
  python 'echo "$PYTHONPATH $*" >'"$BATS_TEST_TMPDIR/words"'; echo "$OUTLAST_AGENT_TOKEN" >'"$BATS_TEST_TMPDIR/token"'; beat; sleep 60'
  serves
  [ "$status" = 0 ]
  until_true test -s "$BATS_TEST_TMPDIR/token"
  [ "$(cat "$BATS_TEST_TMPDIR/words")" = "$OUTLAST_RUN_DIR/tool/1.0 -m outlast sidecar" ]
  [[ $(cat "$BATS_TEST_TMPDIR/token") =~ ^[0-9a-f]{32}$ ]]
  [ "$(stat -c %a "$OUTLAST_STATE/sidecar_token")" = 600 ]
}

@test "coordinator: nobody asked for agents: Bash copies" {
  plain() { OUTLAST_CKPT_COPIER=plain && serves; }
  python 'sleep 60'
  plain
  [ "$status" = 1 ]
}

@test "coordinator: on shared storage, and before the run has its tools, Bash copies" {
  shared_too() { OUTLAST_STORAGE=shared && serves; }
  python 'sleep 60'
  shared_too
  [ "$status" = 1 ]
  OUTLAST_STORAGE=local
  rm -r "$OUTLAST_RUN_DIR/tool"
  serves
  [ "$status" = 1 ]
}

@test "coordinator: what it says becomes events, lines of the log and the end of a drain; nothing else does" {
  python 'beat
    printf "event\tcheckpoint_durable\tstep:=20\tbytes:=5\n"
    printf "event\tended\tclass=done\n"
    printf "log\tinfo\tall is well\nnonsense\n\n"
    printf "drained\t17.4\n"; sleep 60'
  serves
  until_true test -s "$OUTLAST_STATE/drain_done"
  [ "$(cat "$OUTLAST_STATE/drain_done")" = 17.4 ]
  [[ $(event checkpoint_durable) == *'"step":20,"bytes":5}' ]]
  [ -z "$(event ended)" ]
  grep -q 'all is well' "$OUTLAST_STATE/job.log"
}

@test "coordinator: one that ends is started again, and after the fifth time Bash copies" {
  local try
  python 'echo x >>'"$BATS_TEST_TMPDIR/starts"'; echo "KeyError: t" >&2'
  for ((try = 0; try < 5; try++)); do
    serves
    [ "$status" = 0 ]
    until_true eval '! kill -0 "$OL_COORDINATOR_PID" 2>/dev/null'
  done
  serves
  [ "$status" = 1 ]
  serves
  [ "$(wc -l <"$BATS_TEST_TMPDIR/starts")" = 5 ]
  grep -q 'KeyError: t' "$OUTLAST_STATE/job.log"
  [[ $(event warned) == *'ended 5 times'* ]]
}

@test "coordinator: where Bash sees parts only, Python is tried again each minute" {
  OUTLAST_SHARDED=1 OUTLAST_NODES=2 OL_COORDINATOR_FAILS=4
  python 'echo x >>'"$BATS_TEST_TMPDIR/starts"
  serves
  until_true eval '! kill -0 "$OL_COORDINATOR_PID" 2>/dev/null'
  serves
  [ "$status" = 1 ]
  [[ $(event warned) == *'stay on the nodes'* ]]
  OL_COORDINATOR_S=$((OL_COORDINATOR_S - 60))
  serves
  [ "$status" = 0 ]
  until_true eval '[ "$(wc -l <'"$BATS_TEST_TMPDIR/starts"')" = 2 ]'
}

@test "coordinator: one without a sign of life for a minute is killed" {
  python 'echo 17 >"$OUTLAST_STATE/sidecar_beat"; echo "$$" >'"$BATS_TEST_TMPDIR/pid"'; exec sleep 600'
  serves
  until_true test -s "$BATS_TEST_TMPDIR/pid"
  local first=$OL_COORDINATOR_PID
  serves
  until_true eval "! kill -0 $first 2>/dev/null"
}

@test "coordinator: the agents are started on the other nodes, the token not among the words where the launcher carries it" {
  OUTLAST_HOSTS=(n1 n2 n3) OUTLAST_LAUNCHER='' OUTLAST_PYTHON=python3
  echo 4711 >"$OUTLAST_STATE/sidecar_port"
  the_agent 'the agent'
  ol_environment_master() { echo 10.0.0.1; }
  ol_sched_on_each() { printf '%s\n' "$2 $OUTLAST_AGENT_TOKEN" "${@:7:4}" "${@:15}" >"$SCHED/agents"; }
  _ol_coordinator_agents
  until_true test -s "$SCHED/agents"
  wait "$OL_AGENTS_PID"
  [ "$(cat "$SCHED/agents")" = "n2,n3 $(cat "$OUTLAST_STATE/sidecar_token")

10.0.0.1
4711
$OUTLAST_LOCAL
disk
the disk
wire
the wire
agent
the agent" ]
}

@test "coordinator: an agent knows its own host, whatever name a launcher hands on" {
  OUTLAST_HOSTS=(n1 n2) OUTLAST_LAUNCHER='' OUTLAST_PYTHON=python3
  echo 4711 >"$OUTLAST_STATE/sidecar_port"
  the_agent "import sys; open('$SCHED/agents', 'w').write(sys.argv[3])"
  ol_environment_master() { echo 10.0.0.1; }
  ol_sched_on_each() { HOSTNAME=n1 "${@:3}"; }
  _ol_coordinator_agents
  wait "$OL_AGENTS_PID"
  [ "$(cat "$SCHED/agents")" = "$(cat /proc/sys/kernel/hostname)" ]
}

@test "coordinator: agents that could not be started are tried again later, without nodes that are down" {
  OUTLAST_HOSTS=(n1 n2 n3) OUTLAST_LAUNCHER='' OUTLAST_PYTHON=python3
  echo 4711 >"$OUTLAST_STATE/sidecar_port"
  the_agent 'the agent'
  echo n2 >"$SCHED/down"
  ol_environment_master() { echo 10.0.0.1; }
  ol_sched_on_each() { echo "$2" >>"$SCHED/agents"; }
  local before_s
  before_s=$(now)
  _ol_coordinator_agents
  wait "$OL_AGENTS_PID"
  ((OL_AGENTS_AT_S > before_s)) # later than now, whenever it is that we look again
  OL_AGENTS_AT_S=$((OL_AGENTS_AT_S + 1000))
  _ol_coordinator_agents
  [ "$(cat "$SCHED/agents")" = n2,n3 ]
  OL_AGENTS_AT_S=0
  _ol_coordinator_agents
  wait "$OL_AGENTS_PID"
  [ "$(tail -n 1 "$SCHED/agents")" = n3 ]
}

@test "coordinator: an agent that is killed is started again on its node until it ends by itself" {
  OUTLAST_HOSTS=(n1 n2) OUTLAST_LAUNCHER='' OUTLAST_PYTHON=python3
  echo 4711 >"$OUTLAST_STATE/sidecar_port"
  the_agent "import os
with open('$BATS_TEST_TMPDIR/starts', 'a+') as file:
    file.write('x')
    file.flush()
    if file.tell() < 2:
        os.kill(os.getpid(), 9)"
  ol_environment_master() { echo 10.0.0.1; }
  _ol_coordinator_agents
  wait "$OL_AGENTS_PID"
  [ "$(cat "$BATS_TEST_TMPDIR/starts")" = xx ]
}
