#!/usr/bin/env bats
# What a scheduler's driver is asked, whichever it is: WORLD=slurm|pbs|local (tests/driver/run)
#
# They have tags, so that several worlds can be asked side by side: most of what takes long is waiting.
# The words are those of lib/scheduler/slurm.sh's header: 0 yes or done, 1 no or refused, 2 no answer.
# shellcheck disable=SC2016,SC2030,SC2031 # text for a job; a test is a subshell, and that is wanted
# shellcheck disable=SC2153,SC2154 # world.bash and the world set them
load world

setup_file() { world_up >&2; }
teardown_file() { world_down >&2; }
setup() { setup_world; }
teardown() { teardown_world; }

@test "driver: every function of the interface is there, and asked here" {
  local names name
  mapfile -t names < <(grep '^#' "$ROOT/lib/scheduler/slurm.sh" | grep -oE 'ol_sched_[a-z_]+' | sort -u)
  run -0 ask declare -F "${names[@]}"
  for name in "${names[@]}"; do
    grep -v '^#' "$BATS_TEST_DIRNAME/job.bash" "$BATS_TEST_FILENAME" | grep -qw -- "$name"
  done
}

# ---- submit, find

@test "submit: prints the id that the job has for itself, and nothing else" {
  start a
  [[ $ID =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]]
  run -0 in_job a ol_sched_job_id
  [ "$output" = "$ID" ]
  run -0 in_job a ol_sched_restart
  [ "$output" = 0 ]
}

@test "submit: what the job prints is in output's folder under its id, while it runs" {
  folder "the out's"
  start a output="$HERE/the out's/%j.out"
  until_true eval '[[ -n $(compgen -G "$DISK/the out'"\\\\'"'s/$ID.*") ]]'
}

@test "submit: the job knows where that was, and begins there where the scheduler does such a thing" {
  local there="$HERE/a dir & a \$dollar"
  folder "${there##*/}"
  FROM=$there start a dir="$there"
  run -0 in_job a ol_sched_submit_dir
  [ "$output" = "$there" ]
  ! has dir || [ "$(in_job a pwd)" = "$there" ]
}

@test "submit: a job of a job is submitted as from outside" {
  start a
  script b
  run -0 in_job a ol_sched_submit "$HERE/b/script" "$(name_of b)" depend="${JOB[a]}" output="$HERE/%j.out" dir="$HERE"
  JOB[b]=$output
  is "$output" 'state=pending verdict=none restarts=0'
  end a
  until_true starts b 1
  run -0 in_job b ol_sched_nodes
  [ "${#lines[@]}" = "$world_nodes" ]
}

@test "submit: 1 and the reason for a script that is not there" {
  run -1 --separate-stderr ask ol_sched_submit "$HERE/nothing" demo
  [ "$output" = '' ]
  [ "${#stderr_lines[@]}" = 1 ]
}

@test "submit: 1 and the reason for a job that the scheduler refuses" {
  needs refuse
  WORLD_KIND=refused script a
  run -1 --separate-stderr ask ol_sched_submit "$HERE/a/script" "$(name_of a)"
  [ "$output" = '' ]
  [ "${#stderr_lines[@]}" = 1 ]
}

@test "submit: 1 and the reason for a job that the scheduler takes and drops" {
  needs drop
  WORLD_KIND=dropped script a
  run -1 --separate-stderr ask ol_sched_submit "$HERE/a/script" "$(name_of a)"
  [ "$output" = '' ]
  [[ $stderr == *dropped* ]]
}

@test "submit: a job with a parent waits for its end, whichever that is, while others pass it" {
  NODES=1 start a
  NODES=1 submit b depend="${JOB[a]}"
  NODES=1 start c
  is "${JOB[b]}" 'state=pending verdict=none restarts=0'
  end a 3
  until_true starts b 1
}

started_s() { stat -c %Y "$DISK/$1/ready"; }

@test "submit: a delay is kept, of a job that waits for its parent as well" {
  local now_s
  start a
  now_s=$(date +%s)
  NODES=1 submit b delay_s=6
  NODES=1 submit c delay_s=6 depend="${JOB[a]}"
  end a
  until_true starts b 1
  until_true starts c 1
  (($(started_s b) >= now_s + 6))
  (($(started_s c) >= now_s + 6))
}

@test "submit, exclude: the job runs elsewhere, as asked with it or later; 1 where the scheduler has no such thing" {
  local node
  start a
  run -0 in_job a ol_sched_nodes
  node=${lines[0]}
  submit b delay_s=600
  if ! has exclude; then
    run -1 ask ol_sched_exclude "$ID" "$node"
    run -1 ask ol_sched_excludes
    return
  fi
  end a
  ask ol_sched_cancel "$ID"
  becomes "${JOB[a]}" 'state=ended*'
  run -0 ask ol_sched_excludes
  NODES=1 start c exclude="$node"
  run -0 in_job c ol_sched_nodes
  [ "$output" != "$node" ]
  node+=,$output
  NODES=1 submit d depend="$ID"
  run -0 ask ol_sched_exclude "$ID" "$node"
  end c
  until_true starts d 1
  run -0 in_job d ol_sched_nodes
  [[ ,$node, != *,"$output",* ]]
}

@test "find: the pending or running job of exactly that name; 1 when there is none" {
  run -1 ask ol_sched_find "$(name_of a)"
  start a
  submit ab depend="$ID"
  run -0 ask ol_sched_find "$(name_of a)"
  [ "$output" = "${JOB[a]}" ]
  run -0 ask ol_sched_find "$(name_of ab)"
  [ "$output" = "${JOB[ab]}" ]
  ask ol_sched_cancel "${JOB[ab]}" "${JOB[a]}"
  end a
  becomes "${JOB[a]}" 'state=ended*'
  run -1 ask ol_sched_find "$(name_of a)"
  run -1 ask ol_sched_find "$(name_of ab)"
}

@test "find: nobody else's job" {
  needs strangers
  script a
  ID=$(WORLD_USER=bob ask ol_sched_submit "$HERE/a/script" "$(name_of a)" delay_s=600)
  WORLD_USER=bob run -0 ask ol_sched_find "$(name_of a)"
  [ "$output" = "$ID" ]
  run -1 ask ol_sched_find "$(name_of a)"
  WORLD_USER=bob ask ol_sched_cancel "$ID"
}

# ---- states and ends

@test "state: running, ok" {
  start a
  is "$ID" 'state=running verdict=none restarts=0'
  run -0 in_job a ol_sched_state "$ID"
  [ "$output" = 'state=running verdict=none restarts=0' ]
  end a
  becomes "$ID" 'state=ended verdict=ok restarts=0'
}

@test "state: a script that fails has failed, and so has one that is killed" {
  start a
  start b
  end a 3
  tell_job b 0 eval 'kill -KILL $$'
  becomes "${JOB[a]}" 'state=ended verdict=failed restarts=0'
  becomes "${JOB[b]}" 'state=ended verdict=failed restarts=0'
}

@test "state: 1 for an id that the scheduler does not know" {
  submit a delay_s=600
  run -1 ask ol_sched_state "99999${ID#"${ID%%[!0-9]*}"}"
}

@test "state: a held job is pending" {
  needs hold
  submit a delay_s=600
  world_hold "$ID"
  is "$ID" 'state=pending verdict=none restarts=0'
}

@test "cancel: a running job is ending, knows why, and was cancelled whatever its script says" {
  start a
  run -0 ask ol_sched_cancel "$ID"
  told_to_end a
  is "$ID" 'state=ending *'
  run -0 in_job a ol_sched_state "$ID"
  [[ $output == 'state=ending verdict=cancelled restarts=0'* ]]
  end a
  becomes "$ID" 'state=ended verdict=cancelled restarts=0*'
}

@test "cancel: one call for child and parent, and neither runs on" {
  start a
  submit b depend="$ID"
  run -0 ask ol_sched_cancel "${JOB[b]}" "${JOB[a]}"
  end a
  becomes "${JOB[a]}" 'state=ended verdict=cancelled restarts=0*'
  becomes "${JOB[b]}" 'state=ended verdict=cancelled restarts=0*'
  [ ! -e "$DISK/b/ready" ]
}

@test "cancel: an ended job stays what it was, an unknown one is no failure" {
  start a
  end a
  becomes "$ID" 'state=ended verdict=ok restarts=0'
  run -0 ask ol_sched_cancel "$ID" "99999${ID#"${ID%%[!0-9]*}"}"
  is "$ID" 'state=ended verdict=ok restarts=0'
}

@test "end_time: start and limit, the same inside and outside" {
  local now_s end_s
  start a
  now_s=$(date +%s)
  run -0 ask ol_sched_end_time "$ID"
  end_s=$output
  ((end_s > now_s + 3000 && end_s <= now_s + 3700))
  run -0 in_job a ol_sched_end_time
  [ "$output" = "$end_s" ]
  world_shorten "$ID" 600
  run -0 in_job a ol_sched_end_time
  ((output < now_s + 1000))
}

@test "end_time: not for a job that nobody knows" {
  run -2 ask ol_sched_end_time 9999999
  [ "$output" = '' ]
}

# bats test_tags=accident
@test "state: at its limit a job knows that it is that, and that is what it ended of" {
  start a
  world_limit "$ID"
  told_to_end a
  run -0 in_job a ol_sched_state "$ID"
  [ "$output" = 'state=ending verdict=timelimit restarts=0' ]
  end a
  becomes "$ID" 'state=ended verdict=timelimit restarts=0'
}

# bats test_tags=accident
@test "state: a requeued job knows it on its way out, waits again, and counts its restarts" {
  needs requeue
  WORLD_KIND=requeued start a
  world_requeue "$ID"
  told_to_end a
  run -0 in_job a ol_sched_state "$ID"
  [[ $output == *verdict=requeued* ]]
  end a
  until_true is "$ID" 'state=@(pending|running) verdict=none restarts=1'
  until_true starts a 2
  run -0 in_job a ol_sched_restart
  [ "$output" = 1 ]
  is "$ID" 'state=running verdict=none restarts=1'
}

# bats test_tags=accident
@test "state: a preempted job knows it on its way out, and that is what it ended of" {
  needs preemption
  WORLD_KIND=preemptible start a
  run -0 in_job a ol_sched_nodes
  world_preempt "$ID" "${lines[0]}"
  told_to_end a
  run -0 in_job a ol_sched_state "$ID"
  [ "$output" = 'state=ending verdict=preempted restarts=0' ]
  end a
  becomes "$ID" 'state=ended verdict=preempted restarts=0'
}

# ---- nodes

# bats test_tags=nodes
@test "nodes: each once, a line each, the script's own first" {
  local host
  start a
  nodes_of a
  [ "${#NODE[@]}" = "$world_nodes" ]
  [ "$(printf '%s\n' "${NODE[@]}" | sort -u | wc -l)" = "$world_nodes" ]
  host=$(<"$DISK/a/ready")
  [ "${NODE[0]%%.*}" = "${host%%.*}" ]
}

# bats test_tags=nodes
@test "is_here, reasons: a machine with its commands has them, and says what is wrong with its nodes" {
  if has nodes; then run -0 ask ol_sched_is_here; else run ! ask ol_sched_is_here; fi
  run -0 ask ol_sched_reasons
}

# bats test_tags=nodes
@test "known_nodes: of those that are asked for the ones that this cluster has" {
  start a
  nodes_of a
  run -0 ask ol_sched_known_nodes nowhere17 "$LAST"
  [ "$output" = "$LAST" ]
}

# They are named in the order of the question or in that of their names.
down_are() { [[ $(ask ol_sched_down_nodes "$@" | sort) == "$(printf '%s\n' "$@" | sort)" ]]; }

# bats test_tags=accident
@test "down_nodes, state: of jobs on dead nodes one has ended of that, one runs again where that was asked for" {
  local dead=()
  needs node_failure
  NODES=1 start a
  NODES=1 WORLD_KIND=requeued start b
  nodes_of a
  dead=("$LAST")
  nodes_of b
  dead+=("$LAST")
  run -0 ask ol_sched_down_nodes "${dead[@]}"
  [ "$output" = '' ]
  world_node_fails "${dead[0]%%.*}"
  world_node_fails "${dead[1]%%.*}"
  until_true down_are "${dead[@]}"
  becomes "${JOB[a]}" 'state=ended verdict=node restarts=0'
  becomes "${JOB[b]}" 'state=@(pending|running) verdict=none restarts=1'
  world_node_returns "${dead[0]%%.*}"
  world_node_returns "${dead[1]%%.*}"
}

# bats test_tags=nodes
@test "release: the job goes on with the others; 1 where it has only one" {
  start a
  nodes_of a
  if ! has nodes; then
    run -1 in_job a ol_sched_release "$LAST"
    return
  fi
  run -1 in_job a ol_sched_release "${NODE[0]}"
  run -0 in_job a eval "ol_sched_release $LAST && ol_sched_nodes"
  [ "$output" = "${NODE[0]}" ]
  run -0 in_job a ol_sched_on_each 30 "${NODE[0]}" true
  is "$ID" 'state=running verdict=none restarts=0'
}

# ---- commands and ranks on nodes

# Leaves a file named after its host in FOLDER, with the words that it got.
ON_NODE='read -r host </proc/sys/kernel/hostname; printf "<%s>\n" "${@:3}" >"$1/$2.$host"'

joined() {
  local IFS=,
  printf '%s' "${NODE[*]}"
}

# bats test_tags=nodes
@test "on_each: once on each of the nodes that are named, and words arrive as they are" {
  start a
  nodes_of a
  run -0 in_job a ol_sched_on_each 30 "$(joined)" bash -c "$ON_NODE" _ "$HERE/a" all 'two  words' "it's" '"&$x' ''
  there_are "$world_nodes" a 'all.*'
  [ "$(cat "$DISK"/a/all.* | sort -u)" = "$(printf '<%s>\n' 'two  words' "it's" '"&$x' '' | sort)" ]
  run -0 in_job a ol_sched_on_each 30 "$LAST" bash -c "$ON_NODE" _ "$HERE/a" one
  there_are 1 a "one.${LAST%%.*}*"
  there_are 1 a 'one.*'
}

# bats test_tags=nodes
@test "on_each: not 0 when it fails on one of the nodes, or takes longer than it may" {
  start a
  nodes_of a
  run -0 in_job a ol_sched_on_each 30 "$(joined)" true
  run in_job a ol_sched_on_each 30 "$(joined)" bash -c 'read -r host </proc/sys/kernel/hostname; [[ ${host%%.*} != "$1" ]]' _ "${LAST%%.*}"
  [[ $status != 0 && $status != 99 ]]
  run in_job a ol_sched_on_each 2 "$(joined)" sleep 600
  [[ $status != 0 && $status != 99 ]]
}

launched() { until_true test -e "$DISK/$1/$2.code"; }
# It can follow the ranks' end by some seconds.
code_of() { launched "$1" "$2" && cat "$DISK/$1/$2.code"; }

RANK='read -r host </proc/sys/kernel/hostname
  printf "%s\n" "${host%%.*} $RANK $WORLD_SIZE $LOCAL_RANK $NODE_RANK $QUESTION" "${@:2}" >"$1/rank.$RANK"'

# bats test_tags=nodes
@test "launch: ranks on the nodes that are named, with their numbers, the job's environment, and words as they are" {
  start a
  nodes_of a
  in_job a with QUESTION='as it is' launch l "$LAST" 2 bash -c "$RANK" rank "$HERE/a" 'two  words' '"&$x'
  [ "$(code_of a l)" = 0 ]
  [ "$(<"$DISK/a/rank.0")" = "${LAST%%.*} 0 2 0 0 as it is"$'\n''two  words'$'\n''"&$x' ]
  [ "$(head -n 1 "$DISK/a/rank.1")" = "${LAST%%.*} 1 2 1 0 as it is" ]
  there_are 2 a 'rank.*'
}

# bats test_tags=nodes
@test "launch: over all nodes the ranks are numbered node by node" {
  local node rank=0
  start a
  nodes_of a
  in_job a with QUESTION= launch l "$(joined)" 2 bash -c "$RANK" rank "$HERE/a"
  [ "$(code_of a l)" = 0 ]
  for node in "${!NODE[@]}"; do
    [ "$(<"$DISK/a/rank.$rank")" = "${NODE[node]%%.*} $rank $((world_nodes * 2)) 0 $node " ]
    [ "$(<"$DISK/a/rank.$((rank + 1))")" = "${NODE[node]%%.*} $((rank + 1)) $((world_nodes * 2)) 1 $node " ]
    rank=$((rank + 2))
  done
}

# bats test_tags=nodes
@test "launch: not 0 when a rank fails, and what the ranks print is in its output" {
  start a
  nodes_of a
  in_job a launch l "$(joined)" 1 bash -c 'exit $((RANK == WORLD_SIZE - 1 ? 3 : 0))'
  [ "$(code_of a l)" != 0 ]
  grep -q "outlast: rank $((world_nodes - 1)) on ${LAST%%.*}.* ended with code 3" "$DISK/a/l.log"
}

# Does as it is told, or is deaf; says on which host and in which process it runs.
TRAINER='read -r host </proc/sys/kernel/hostname
  if [[ $2 == deaf ]]; then
    trap "" TERM USR1 USR2
  else
    trap "touch $1/saved.$RANK" USR1
    trap "touch $1/stopped.$RANK; exit 0" TERM
  fi
  printf "%s %d\n" "$host" "$$" >"$1/up.$RANK"
  while :; do sleep 0.1; done'

train() { # LABEL [deaf]
  in_job "$1" launch l "$(joined)" 2 bash -c "$TRAINER" rank "$HERE/$1" "${2:-}"
  until_true there_are $((world_nodes * 2)) "$1" 'up.*'
}

# bats test_tags=nodes
@test "signal_launch: save and stop reach every rank on every node" {
  start a
  nodes_of a
  train a
  in_job a tell_launch l save
  until_true there_are $((world_nodes * 2)) a 'saved.*'
  there_are 0 a 'stopped.*'
  in_job a tell_launch l stop
  until_true there_are $((world_nodes * 2)) a 'stopped.*'
  [ "$(code_of a l)" = 0 ]
}

# On a node: does none of the ranks that ran there run?
GONE='read -r host </proc/sys/kernel/hostname
  for file in "$1"/up.*; do
    read -r where pid <"$file"
    [[ $where != "$host" || ! -e /proc/$pid ]] || exit 1
  done'

# bats test_tags=nodes
@test "kill_launch: nothing is left of ranks that heed nothing, and the job goes on" {
  start a
  nodes_of a
  train a deaf
  in_job a tell_launch l kill
  [ "$(code_of a l)" != 0 ]
  until_true in_job a ol_sched_on_each 30 "$(joined)" bash -c "$GONE" _ "$HERE/a"
  is "$ID" 'state=running verdict=none restarts=0'
}

# ---- a scheduler that is not there. Unknown is never no.

# Ask CMD in the background; what is answered all the same goes to `answered`.
no_answer() { # CMD...
  local status=0
  "$@" >"$BATS_TEST_TMPDIR/out.$BASHPID" 2>/dev/null || status=$?
  [[ $status == 2 && ! -s $BATS_TEST_TMPDIR/out.$BASHPID ]] ||
    printf '%s: %d %s\n' "$*" "$status" "$(<"$BATS_TEST_TMPDIR/out.$BASHPID")" >>"$BATS_TEST_TMPDIR/answered"
}

# All at once, since each may take its whole limit.
ask_all() {
  script z
  no_answer ask ol_sched_submit "$HERE/z/script" "$(name_of z)" &
  no_answer ask ol_sched_find "$(name_of a)" &
  no_answer ask ol_sched_state "${JOB[a]}" &
  no_answer in_job a ol_sched_state "${JOB[a]}" &
  no_answer ask ol_sched_state 9999999 &
  no_answer ask ol_sched_cancel "${JOB[a]}" &
  no_answer ask ol_sched_end_time "${JOB[a]}" &
  no_answer in_job a ol_sched_end_time &
  ! has exclude || no_answer ask ol_sched_exclude "${JOB[b]}" "$LAST" &
  ! has nodes || no_answer ask ol_sched_known_nodes "$LAST" &
  ! has nodes || no_answer ask ol_sched_down_nodes "$LAST" &
  ! has nodes || no_answer ask ol_sched_reasons &
  ! has nodes || no_answer in_job a ol_sched_release "$LAST" &
  wait
  [[ ! -e $BATS_TEST_TMPDIR/answered ]] || {
    cat "$BATS_TEST_TMPDIR/answered"
    return 1
  }
}

# What a job knows of itself it knows without a scheduler.
still_known() {
  run -0 in_job a ol_sched_job_id
  [ "$output" = "${JOB[a]}" ]
  run -0 in_job a ol_sched_nodes
  [ "$output" = "$(printf '%s\n' "${NODE[@]}")" ]
  run in_job a ol_sched_restart
  [[ $status == 0 && $output == 0 || $status == 2 && -z $output ]]
}

# bats test_tags=silence
@test "dead scheduler: no question has an answer, and the jobs are there when it is back" {
  start a
  nodes_of a
  submit b depend="$ID"
  world_dead
  ask_all
  still_known
  world_alive
  is "${JOB[b]}" 'state=pending verdict=none restarts=0'
  is "${JOB[a]}" 'state=running verdict=none restarts=0'
  end a
  until_true starts b 1
}

# bats test_tags=silence
@test "hanging scheduler: every question ends by itself and has no answer" {
  needs hang
  start a
  nodes_of a
  submit b depend="$ID"
  world_hangs
  ask_all
  still_known
}
