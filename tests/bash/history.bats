#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

@test "history_load: the questions are answered from a copy on the node" {
  past 6 submitted successor=7
  mv "$OUTLAST_STATE/history.jsonl" "$OUTLAST_RUN_DIR/events.jsonl"
  ol_history_load
  rm "$OUTLAST_RUN_DIR/events.jsonl"
  run -0 ol_history_parent
  [ "$output" = 6 ]
}

@test "history_load: a run without a ledger has no history, and that is no failure" {
  run -0 ol_history_load
  run -0 ol_history_jobs
  [ "$output" = 0 ]
}

@test "history_load: no answer is passed on" {
  OUTLAST_SHARED_LIMIT_S=1
  touch "$OUTLAST_RUN_DIR/events.jsonl"
  tail() { sleep 60; }
  export -f tail
  run -124 ol_history_load
}

@test "history_parent: the job that submitted this one, nobody for a job that a person submitted" {
  past 5 submitted successor=6
  past 6 submitted successor=7
  run -0 ol_history_parent
  [ "$output" = 6 ]
  OUTLAST_JOB_ID=5
  run -0 ol_history_parent
  [ "$output" = "" ]
}

@test "history_parent: a person's submit makes no parent" {
  past '' submitted successor=7
  run -0 ol_history_parent
  [ "$output" = "" ]
}

@test "history_successors: newest first, without this job, five at most" {
  local id
  for id in 1 2 3 4 5 6 7 8; do past x submitted successor="$id"; done
  run -0 ol_history_successors
  [ "$(tr '\n' ' ' <<<"$output")" = "8 6 5 4 3 " ]
}

@test "history_tries: what this job has launched again for this failure, and moved for it" {
  run -0 ol_history_tries x
  [ "$output" = '0 - - 0 0' ]
  past 6 ended fingerprint=x step:=5 durable_step:=0 "then=relaunch"
  past 7 ended fingerprint=x step:=5 durable_step:=0 "then=relaunch"
  past 7 ended fingerprint=y step:=5 durable_step:=0 "then=relaunch"
  past 7 swapped out=n9 in=n8 slot:=4
  run -0 ol_history_tries x
  [ "$output" = '1 - - 0 0' ]
  past 7 checkpoint_durable step:=5
  past 7 swapped out=n2 in=n5 slot:=1 how=move fingerprint=x
  past 7 swapped out=n3 in=n6 slot:=2 how=blind fingerprint=y
  run -0 ol_history_tries x
  [ "$output" = '1 1 n2 0 1' ]
  past 7 checkpoint_durable step:=6
  past 7 ended fingerprint=x step:=8 durable_step:=6 "then=submit"
  run -0 ol_history_tries x
  [ "$output" = '1 1 n2 1 1' ]
}

@test "history_stuck: counts jobs in a row at this durable step" {
  past 4 started durable_step:=0
  past 5 started durable_step:=600
  past 6 started durable_step:=600
  run -0 ol_history_stuck 600
  [ "$output" = 2 ]
  run -0 ol_history_stuck 700
  [ "$output" = 0 ]
}

@test "history_stuck: a job further back that stood elsewhere ends the row" {
  past 3 started durable_step:=600
  past 4 started durable_step:=0
  past 5 started durable_step:=600
  run -0 ol_history_stuck 600
  [ "$output" = 1 ]
}

@test "history_stuck: preempted, requeued and cancelled jobs had no fair chance" {
  past 4 started durable_step:=600
  past 4 ended class=crash
  past 5 started durable_step:=600
  past 5 ended class=preempted
  past 6 started durable_step:=600
  past 6 ended class=requeued
  run -0 ol_history_stuck 600
  [ "$output" = 1 ]
}

@test "history_stuck: this job's own start counts, from the node's ledger" {
  past 6 started durable_step:=0
  ol_ledger_add started durable_step:=0
  run -0 ol_history_stuck 0
  [ "$output" = 2 ]
}

@test "history: a resume starts the counts anew" {
  past 5 started durable_step:=0
  past 5 ended class=crash fingerprint='code 1' step:=9 ran_s:=3
  past '' resumed by=bob
  past 6 started durable_step:=0
  past 6 ended class=crash fingerprint='code 1' step:=9 ran_s:=3
  [ "$(ol_history_stuck 0)" = 1 ]
  [ "$(ol_history_same 'code 1' 9)" = 1 ]
  [ "$(ol_history_rapid 600)" = 1 ]
}

@test "history_same: fingerprint and step both, over jobs" {
  past 5 ended class=crash fingerprint='signal SEGV' step:=40
  past 6 ended class=crash fingerprint='signal SEGV' step:=41
  past 6 ended class=crash fingerprint='code 1/ValueError' step:=40
  past 6 ended class=crash fingerprint='signal SEGV' step:=40
  run -0 ol_history_same 'signal SEGV' 40
  [ "$output" = 2 ]
}

@test "history_same: a checkpoint beyond the failure says that it was overcome, one before it does not" {
  past 5 ended class=node fingerprint=node step:= durable_step:=100
  past 6 checkpoint_durable step:=100
  past 6 ended class=node fingerprint=node step:= durable_step:=100
  [ "$(ol_history_same node '')" = 2 ]
  past 6 checkpoint_durable step:=200
  past 7 ended class=node fingerprint=node step:= durable_step:=200
  [ "$(ol_history_same node '')" = 1 ]
  past 8 ended class=crash fingerprint='code 1' step:=240 durable_step:=200
  past 8 checkpoint_durable step:=230
  past 8 ended class=crash fingerprint='code 1' step:=240 durable_step:=230
  [ "$(ol_history_same 'code 1' 240)" = 2 ]
}

@test "history_rapid: crashes within SEC seconds, in a row; a long one or a walltime ends the row" {
  past 5 ended class=crash fingerprint='code 1' ran_s:=3
  past 5 ended class=crash fingerprint='code 1' ran_s:=900
  past 5 ended class=crash fingerprint='code 1' ran_s:=3
  past 5 ended class=launch fingerprint=launch ran_s:=0
  [ "$(ol_history_rapid 600)" = 2 ]
  past 6 ended class=walltime ran_s:=50
  [ "$(ol_history_rapid 600)" = 0 ]
}

@test "history_jobs: a requeued job is one job" {
  past 5 started
  past 5 started
  past 6 started
  run -0 ol_history_jobs
  [ "$output" = 2 ]
}

@test "history_node_hours: nodes times the time between a job's first and last event" {
  PAST_S=1700000000 past 5 started nodes:=8
  PAST_S=1700003600 past 5 progress step:=1
  PAST_S=1700003600 past 6 started nodes:=2
  PAST_S=1700007200 past 6 ended class=walltime
  run -0 ol_history_node_hours
  [ "$output" = 10 ]
}

@test "history_node_hours: what a job used before its requeue counts, the wait between does not" {
  PAST_S=1700000000 past 5 started nodes:=8
  PAST_S=1700003600 past 5 ended class=requeued
  PAST_S=1700090000 past 5 started nodes:=8
  PAST_S=1700093600 past 5 ended class=walltime
  sed -i '3,4s/"restart":0/"restart":1/' "$OUTLAST_STATE/history.jsonl"
  run -0 ol_history_node_hours
  [ "$output" = 16 ]
}

@test "history_end: the class of a job's last end, nothing when it has none or somebody resumed the run" {
  past 5 ended class=crash then=relaunch
  past 5 ended class=cancelled
  past 6 ended class=walltime
  [ "$(ol_history_end 5)" = cancelled ]
  [ "$(ol_history_end 4)" = "" ]
  past '' resumed by=bob
  [ "$(ol_history_end 5)" = "" ]
}

@test "history_margin_s: that of the last job that was cut off, else 0" {
  run -0 ol_history_margin_s
  [ "$output" = 0 ]
  past 5 ended class=walltime_late margin_s:=300
  past 6 ended class=walltime margin_s:=600
  run -0 ol_history_margin_s
  [ "$output" = 300 ]
}

@test "history: torn lines, lines sent twice and a stranger's words change nothing" {
  past 6 started durable_step:=0
  past 6 ended class=crash evidence='he said "event":"started","durable_step":0}' fingerprint='code 1' step:=3
  cat "$OUTLAST_STATE/history.jsonl" "$OUTLAST_STATE/history.jsonl" >"$OUTLAST_STATE/twice"
  {
    printf ',"event":"started","durable_step":0}\n\n{"t":170'
    printf '\n[]\nnull\n\xff\xfe\n'
  } >>"$OUTLAST_STATE/twice"
  mv "$OUTLAST_STATE/twice" "$OUTLAST_STATE/history.jsonl"
  [ "$(ol_history_stuck 0)" = 1 ]
  [ "$(ol_history_same 'code 1' 3)" = 1 ]
  [ "$(ol_history_jobs)" = 1 ]
}

@test "history_stop_s: from the request to the last copy, the middle one of three stops; nothing is 0" {
  local job took
  run -0 ol_history_stop_s
  [ "$output" = 0 ]
  for took in 40 900 50 60; do
    job=$((${job:-0} + 1))
    past "$job" signal name=stop from=deadline
    PAST_S=$((PAST_S + took - 2))
    past "$job" ended class=walltime
    past "$job" checkpoint_durable seconds:=5
    PAST_S=$((PAST_S + 10000))
    past "$((job + 1))" checkpoint_durable seconds:=5
  done
  run -0 ol_history_stop_s
  [ "$output" = 60 ]
}

@test "history_stop_s: a stop that somebody asked for says nothing, copies alone do" {
  local took
  past 1 signal name=stop from=stop
  PAST_S=$((PAST_S + 500))
  past 1 ended class=stopped
  for took in 9000 30 20 9000 40 31; do past 1 checkpoint_durable seconds:="$took"; done
  run -0 ol_history_stop_s
  [ "$output" = 31 ]
}

@test "history_stop_s: what became durable without a copy of ours says nothing of how long one takes" {
  past 1 branched step:=600 seconds:=9000
  past 1 checkpoint_durable step:=600
  past 1 checkpoint_durable step:=601 seconds:=7
  past 1 checkpoint_durable step:=602
  run -0 ol_history_stop_s
  [ "$output" = 7 ]
}

@test "history_cadence: the slowest of the last three launches, and hangs in a row at one step" {
  run -0 ol_history_cadence
  [ "$output" = "0 0 0 0 0 0 0 0 0" ]
  past 1 cadence usual_s:=900 longest_s:=900 seen_s:=10 eval_s:=900 save_s:=900 start_s:=900
  past 1 hang step:=3
  past 2 cadence usual_s:=8 longest_s:=20 seen_s:=10 eval_s:=1 save_s:=40 start_s:=100 resume_s:=500
  past 3 cadence usual_s:=5 longest_s:=30 seen_s:=900 eval_s:=7 save_s:=4 start_s:=10
  past 3 hang step:=70
  past 4 cadence usual_s:=5 longest_s:=3 seen_s:=900 eval_s:=2 save_s:=4 start_s:=20 resume_s:=60
  past 4 hang step:=70
  run -0 ol_history_cadence
  [ "$output" = "8 30 900 7 40 100 500 2 70" ]
}

@test "history_tried: endings of a class that were gone on after, until the run has been further" {
  past 5 ended class=systemic scope=config step:=50 durable_step:=40 then=relaunch
  past 5 ended class=crash step:=50 durable_step:=40 then=relaunch
  past 6 ended class=systemic scope=software step:=50 durable_step:=40 then=hold
  past 6 checkpoint_durable step:=50
  run -0 ol_history_tried systemic
  [ "$output" = 1 ]
  run -0 ol_history_tried systemic scope software
  [ "$output" = 0 ]
  past 6 checkpoint_durable step:=60
  run -0 ol_history_tried systemic
  [ "$output" = 0 ]
  past 7 ended class=systemic then=submit
  past '' resumed by=alice
  run -0 ol_history_tried systemic
  [ "$output" = 0 ]
}

@test "history_elsewhere: other hosts on which the same has ended at this step, none of ours among them" {
  past 5 launched hosts=n1,n2
  past 5 ended fingerprint=log:x:ab step:=50
  run -0 ol_history_elsewhere log:x:ab 50 n3,n4
  [ "$output" = n1,n2 ]
  run -0 ol_history_elsewhere log:x:ab 50 n2,n4
  [ "$output" = "" ]
  run -0 ol_history_elsewhere log:x:ab 51 n3,n4
  [ "$output" = "" ]
}

@test "history_elsewhere: a host list that the ledger has cut proves nothing" {
  local hosts='' i
  for ((i = 10000; i < 10060; i++)); do hosts+=frontier$i,; done
  past 5 launched hosts="${hosts}bad"
  past 5 ended fingerprint=log:x:ab step:=50
  run -0 ol_history_elsewhere log:x:ab 50 n3,bad
  [ "$output" = "" ]
  past 6 launched hosts=n1,n2
  past 6 ended fingerprint=log:x:ab step:=50
  run -0 ol_history_elsewhere log:x:ab 50 "${hosts}bad"
  [ "$output" = n1,n2 ]
}
