#!/usr/bin/env bats
# How did it end? One test a row of docs/endings.md, and what must not be taken for another row.
# shellcheck disable=SC2016,SC2030,SC2031 # a name that must stay text; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  ol_progress_reset
  OUTLAST_LAUNCH_CODE=1
  printf '0: outlast: rank 0 of 2 on n1 started\n' >"$OUTLAST_LOG"
}

log() { printf '%s\n' "$@" >>"$OUTLAST_LOG"; }
asked() { printf '%s\n' "$1" >"$OUTLAST_STATE/asked"; }
says() { printf 'state=%s verdict=%s restarts=%s\n' "$1" "$2" "${3:-0}" >"$SCHED/state.7"; }
died() { log "1: outlast: rank 1 on n1 ended with ${1:-code 1} at 1700000000"; }
# The attempt has ended: what class?
class() {
  status_of ol_progress_look "$OUTLAST_LOG" last
  status_of ol_ending_attempt
  printf '%s' "$OUTLAST_CLASS"
}
signalled() {
  status_of ol_ending_signalled
  printf '%s' "$OUTLAST_CLASS"
}

# ---- TERM has come: the scheduler's rows

@test "ending: a node that we found dead ourselves is the node's, also when the scheduler does not answer" {
  OUTLAST_HOSTS=(n1.domain n2.domain) OUTLAST_LAUNCH_CODE=143
  echo n2.domain >"$OUTLAST_STATE/dead"
  asked node
  status_of ol_ending_attempt
  [ "$OUTLAST_CLASS" = node ]
  [[ $OUTLAST_EVIDENCE == *n2.domain* ]]
  touch "$SCHED/silent"
  [ "$(ol_ending_nodes)" = n2.domain ]
}

@test "ending: the time limit, before our deadline, is walltime_late" {
  says ending timelimit
  [ "$(signalled)" = walltime_late ]
}

@test "ending: the time limit that overtakes our own stop is walltime" {
  says ending timelimit
  printf '1 x\n' >"$OUTLAST_STATE/deadline"
  asked deadline
  [ "$(signalled)" = walltime ]
}

@test "ending: each verdict of the scheduler has its class" {
  local pair
  for pair in requeued:requeued preempted:preempted node:node cancelled:cancelled; do
    says ending "${pair%:*}"
    [ "$(signalled)" = "${pair#*:}" ]
  done
}

@test "ending: who has cancelled the job is in the evidence, where the scheduler tells" {
  printf 'state=running verdict=cancelled restarts=0 by=root@head\n' >"$SCHED/state.7"
  status_of ol_ending_signalled
  [[ $OUTLAST_EVIDENCE == *"somebody cancelled it (root@head)" ]]
}

@test "ending: TERM while the scheduler sees a running job is somebody's" {
  says running none
  [ "$(signalled)" = cancelled ]
}

@test "ending: TERM and no answer is unknown, not cancelled" {
  touch "$SCHED/silent"
  [ "$(signalled)" = ended_unknown ]
}

@test "ending: a job that the scheduler does not know any more is unknown as well" {
  [ "$(signalled)" = ended_unknown ]
}

@test "ending: what the scheduler said when TERM came stands when the ranks end" {
  OUTLAST_CLASS=requeued
  died
  [ "$(class)" = requeued ]
}

# ---- our own requests

@test "ending: the stop file, with any code, is stopped" {
  asked stop
  OUTLAST_LAUNCH_CODE=143
  died 'signal TERM'
  [ "$(class)" = stopped ]
}

@test "ending: our deadline, with any code, is walltime, and the evidence is what the timer wrote" {
  asked deadline
  printf '1700000000 the allocation ends in 299 s\n' >"$OUTLAST_STATE/deadline"
  local code
  for code in 0 1 137 143; do
    OUTLAST_CLASS='' OUTLAST_LAUNCH_CODE=$code
    [ "$(class)" = walltime ]
  done
  status_of ol_ending_attempt
  [[ $OUTLAST_EVIDENCE == *"ends in 299 s"* ]]
}

@test "ending: a lost lease is superseded, a wrong resume is itself, though training looks finished" {
  OUTLAST_TARGET_STEP=5 OUTLAST_FIRST_STEP=1
  log 'step 5'
  asked lost
  [ "$(class)" = superseded ]
  asked wrong_resume
  OUTLAST_RESUME_STEP=600
  [ "$(class)" = wrong_resume ]
}

# ---- over

@test "ending: the target step is done, with any code, asked or not" {
  OUTLAST_TARGET_STEP=700
  log 'step 700'
  OUTLAST_LAUNCH_CODE=1
  [ "$(class)" = "done" ]
  asked deadline
  printf '1 x\n' >"$OUTLAST_STATE/deadline"
  [ "$(class)" = "done" ]
}

@test "ending: the finish line is done unless we had asked" {
  OUTLAST_FINISH_REGEX='Training completed'
  log 'Training completed'
  OUTLAST_LAUNCH_CODE=0
  [ "$(class)" = "done" ]
  asked deadline
  printf '1 x\n' >"$OUTLAST_STATE/deadline"
  [ "$(class)" = walltime ]
}

@test "ending: Hugging Face's last checkpoint is done, one before it is not" {
  checkpoint 700 "$OUTLAST_CKPT_DIR" 700
  OUTLAST_LAUNCH_CODE=0
  [ "$(class)" = "done" ]
  rm -r "$OUTLAST_CKPT_DIR/checkpoint-700"
  checkpoint 600 "$OUTLAST_CKPT_DIR" 700
  [ "$(class)" = early_exit ]
}

@test "ending: 0 that nobody asked for is done after steps, where nothing could say more" {
  OUTLAST_LAUNCH_CODE=0
  log 'step 50'
  [ "$(class)" = "done" ]
}

@test "ending: 0 that nobody asked for, without a step, is an early exit" {
  OUTLAST_LAUNCH_CODE=0
  [ "$(class)" = early_exit ]
}

@test "ending: 0 before the target step is an early exit" {
  OUTLAST_LAUNCH_CODE=0 OUTLAST_TARGET_STEP=700
  log 'step 50'
  [ "$(class)" = early_exit ]
}

@test "ending: the checkpoint that a job resumed from is no progress of its own" {
  OUTLAST_LAUNCH_CODE=0 OUTLAST_RESUME_STEP=600
  checkpoint 600
  [ "$(class)" = early_exit ]
  checkpoint 650
  [ "$(class)" = "done" ]
}

# ---- failures

@test "ending: a dead node named by the launcher beats the crash of the others" {
  OUTLAST_HOSTS=(n03 n04)
  died 'signal KILL'
  log 'srun: error: Node failure on n04'
  [ "$(class)" = node ]
}

@test "ending: a dead node named by PALS, in its other network, is a dead node, and not its parent" {
  local line
  OUTLAST_HOSTS=(x1c0s0b0n0.hsn.site x1c0s1b0n0.hsn.site) OUTLAST_LAUNCH_CODE=143
  while read -r line; do
    log "$line"
    [ "$(class)" = node ]
    status_of ol_progress_look "$OUTLAST_LOG" last
    run -0 ol_ending_nodes
    [ "$output" = x1c0s1b0n0.hsn.site ]
    rm -f "$OUTLAST_LOG" "$OUTLAST_SAID"
    ol_progress_reset
  done <<'END'
launch failed on x1c0s0b0n0.hsn.site: Couldn't forward RPC launch(11-22) to child x1c0s1b0n0.mgmt.site: No route to host
ping failed on x1c0s0b0n0: Couldn't forward RPC ping(11-22) to child x1c0s1b0n0.mgmt.site: Resource temporarily unavailable
ping failed on x1c0s0b0n0: No reply from x1c0s1b0n0.mgmt.site after 87s
ping RPC timeout from x1c0s1b0n0.mgmt.site after 120s
x1c0s1b0n0.hsn.site: shepherd died from signal 9
END
}

@test "ending: a node that is not ours is nobody's death" {
  OUTLAST_HOSTS=(n03 n04)
  died 'code 1'
  log '0: No reply from x9c0s1b0n0.mgmt.site after 87s' 'srun: error: Node failure on n99'
  [ "$(class)" = crash ]
}

@test "ending: a host that was rebooted is called by its place in the scheduler's order, and its step is nobody's cancel" {
  OUTLAST_HOSTS=(n01 n02.site n03 n04 n05) OUTLAST_NODE_LIST=n01,n05,n03,n04 OUTLAST_LAUNCH_CODE=137
  log 'srun: error: Aborting, io error and missing step on node 2' 'srun: error: n03: task 2: Killed' \
    'slurmstepd-n01: error: *** STEP 12.0 ON n01 CANCELLED AT 2026-11-30T11:03:32 ***'
  [ "$(class)" = node ]
  status_of ol_ending_attempt
  [ "${OUTLAST_BLAME[*]}" = n04 ]
}

@test "ending: where a rank has been heard of on that host nobody is to blame, and it was no cancel either" {
  OUTLAST_HOSTS=(n01 n02 n03) OUTLAST_NODE_LIST=n01,n02,n03 OUTLAST_LAUNCH_CODE=137
  log 'srun: error: Aborting, step missing and io error on node 1' 'srun: error: n02: task 1: Killed' \
    'slurmstepd-n01: error: *** STEP 12.0 ON n01 CANCELLED AT 2026-11-30T11:03:32 ***'
  [ "$(class)" = crash ]
}

@test "ending: a cancelled step, without a rank that says how it died, is cancelled" {
  OUTLAST_LAUNCH_CODE=137
  log 'slurmstepd-n01: error: *** STEP 12.0 ON n01 CANCELLED AT 2026-11-29T17:00:55 ***'
  [ "$(class)" = cancelled ]
}

@test "ending: a cancelled step, told behind a progress bar and cut by srun, is cancelled" {
  OUTLAST_LAUNCH_CODE=137
  log '0:  16%|#6        | 78/500 slurmstepd-n01: error: *** STEP 12.0 ON n' '0: 01 CANCELLED AT 2026-11-29T17:00:55 ***'
  [ "$(class)" = cancelled ]
}

@test "ending: a step that Slurm ends for the time limit is not somebody's cancel" {
  log 'slurmstepd-n01: error: *** STEP 12.0 ON n01 CANCELLED AT 2026-11-29T17:00:55 DUE TO TIME LIMIT ***'
  [ "$(class)" != cancelled ]
}

@test "ending: no rank started is launch, and the evidence has the launcher's last words" {
  : >"$OUTLAST_LOG"
  OUTLAST_LAUNCH_CODE=233
  log 'srun: error: Task launch for StepId=8.0 failed on node n03: Communication connection failure' ''
  status_of ol_progress_look "$OUTLAST_LOG" last
  status_of ol_ending_attempt
  [ "$OUTLAST_CLASS" = launch ]
  [[ $OUTLAST_EVIDENCE == *"code 233"*"Communication connection failure"* ]]
}

@test "ending: 126 and 127 are launch although the shim had started" {
  died 'code 127'
  OUTLAST_LAUNCH_CODE=127
  [ "$(class)" = launch ]
}

@test "ending: words of errno are storage" {
  local words
  for words in 'OSError: [Errno 28] No space left on device' 'OSError: [Errno 122] Disk quota exceeded' \
    'OSError: [Errno 5] Input/output error' 'OSError: [Errno 116] Stale file handle'; do
    printf '0: outlast: rank 0 of 2 on n1 started\n' >"$OUTLAST_LOG"
    ol_progress_reset
    log "$words"
    died
    [ "$(class)" = storage ]
  done
}

@test "ending: anything else is crash, and the evidence is the first rank that died" {
  died 'signal SEGV'
  log '0: outlast: rank 0 on n1 ended with code 1 at 1700000005'
  OUTLAST_LAUNCH_CODE=139
  status_of ol_progress_look "$OUTLAST_LOG" last
  status_of ol_ending_attempt
  [ "$OUTLAST_CLASS" = crash ]
  [ "$OUTLAST_EVIDENCE" = 'outlast: rank 1 on n1 ended with signal SEGV at 1700000000' ]
}

@test "ending: peers that we stopped after a rank's death are a crash, whatever they said themselves" {
  asked peers
  died 'signal SEGV'
  [ "$(class)" = crash ]
}

@test "ending: a fingerprint is the first death and the error's name, without hosts, ranks and numbers" {
  log '3: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB on n0042'
  died 'code 1'
  status_of ol_progress_look "$OUTLAST_LOG" last
  status_of ol_ending_attempt
  [ "$OUTLAST_FINGERPRINT" = 'end:code 1/OutOfMemoryError' ]
}

@test "ending: a death without an error's name has a fingerprint all the same" {
  died 'signal SEGV'
  status_of ol_progress_look "$OUTLAST_LOG" last
  status_of ol_ending_attempt
  [ "$OUTLAST_FINGERPRINT" = 'end:signal SEGV' ]
}

@test "ending: no log at all is a launch that failed, not a crash of ours" {
  rm -f "$OUTLAST_LOG" "$OUTLAST_SAID"
  [ "$(class 2>/dev/null)" = launch ]
}

@test "ending_nodes: what the launcher or the scheduler call dead, of our own hosts, each once" {
  OUTLAST_HOSTS=(n03 n04 n05)
  log 'srun: error: Node failure on n04' 'srun: error: Node failure on n99' 'srun: error: Node failure on $(id)'
  printf 'n05\nn04\n' >"$SCHED/down"
  status_of ol_progress_look "$OUTLAST_LOG" last
  run -0 ol_ending_nodes
  [ "${lines[*]}" = "n04 n05" ]
}

@test "ending_nodes: a scheduler that does not answer leaves what the launcher said" {
  OUTLAST_HOSTS=(n03 n04)
  log 'srun: error: Node failure on n04'
  touch "$SCHED/silent"
  status_of ol_progress_look "$OUTLAST_LOG" last
  run ol_ending_nodes
  [ "$output" = n04 ]
}

@test "ending_nodes: one that was back before it was asked for is named by the launcher, a moment after TERM" {
  OUTLAST_HOSTS=(n03 n04) OUTLAST_LAUNCH_PID=1 naps=0
  ol_bounded_nap() { ((++naps < 3)) || log 'srun: error: Node failure on n04'; }
  run -0 ol_ending_nodes
  [ "$output" = n04 ]
}

@test "ending_nodes: one that nobody names is waited for two seconds, not for ever" {
  OUTLAST_HOSTS=(n03 n04) OUTLAST_LAUNCH_PID=1
  ol_bounded_nap() { log "nap $1"; }
  run -0 ol_ending_nodes
  [ -z "$output" ]
  [ "$(grep -c '^nap 0.2$' "$OUTLAST_LOG")" = 10 ]
}

@test "ending: the shared file system is full, or it is not, or it does not answer" {
  run -1 _ol_ending_shared_is_full
  [ -z "$(find "$OUTLAST_RUN_DIR" -name '.probe*')" ]
  head() { return 1; }
  export -f head
  run -0 _ol_ending_shared_is_full
  head() { sleep 60; }
  OUTLAST_SHARED_LIMIT_S=1 run -124 _ol_ending_shared_is_full
}

@test "ending: what the watchdog stopped is a hang, whatever its ranks say of their end" {
  OUTLAST_HANG_SAYS='no progress for 400 s in phase steps, limit 300 s; last step 7' OUTLAST_HANG_PHASE=steps
  asked hang
  died 'signal KILL'
  status_of ol_ending_attempt
  [ "$OUTLAST_CLASS $OUTLAST_LAUNCH_CODE $OUTLAST_FINGERPRINT" = "hang 124 hang/steps" ]
  [ "$OUTLAST_EVIDENCE" = "$OUTLAST_HANG_SAYS" ]
}

@test "ending: the node whose stacks accuse it is to blame for a hang, and without one nobody" {
  OUTLAST_HANG_SAYS='no progress' OUTLAST_HANG_PHASE=steps OUTLAST_BLAME=()
  asked hang
  status_of ol_ending_attempt
  [ "${#OUTLAST_BLAME[@]}" = 0 ]
  OUTLAST_CLASS=''
  echo 'n2 hang' >"$OUTLAST_STATE/suspect"
  status_of ol_ending_attempt
  [ "${OUTLAST_BLAME[*]} $OUTLAST_BLAME_WHY" = "n2 hang" ]
  [ "$OUTLAST_EVIDENCE" = "no progress; n2 is unlike the others: its rank is stopped or gone" ]
}

@test "ending: a node that only seems to be unlike the others of a hang is told of, and not blamed" {
  OUTLAST_HANG_SAYS='no progress' OUTLAST_HANG_PHASE=steps OUTLAST_BLAME=()
  asked hang
  echo 'n2 behind weak' >"$OUTLAST_STATE/suspect"
  ol_verdict() { return 1; }
  status_of ol_ending_attempt
  [ "${#OUTLAST_BLAME[@]}" = 0 ]
  [ "$OUTLAST_EVIDENCE" = "no progress; n2 may be unlike the others: the others wait for its ranks" ]
}

# ---- what the log says of it

# The parser's answer: log_says PATTERN SCOPE PERSISTENCE ACTION CONFIDENCE TEXT [HOST...]
log_says() {
  SAYS=("$@")
  ol_verdict() {
    OUTLAST_PATTERN=${SAYS[0]} OUTLAST_SCOPE=${SAYS[1]} OUTLAST_PERSISTENCE=${SAYS[2]} OUTLAST_ACTION=${SAYS[3]}
    OUTLAST_CONFIDENCE=${SAYS[4]} OUTLAST_VERDICT_TEXT=${SAYS[5]} OUTLAST_FINGERPRINT=log:${SAYS[0]}:ab
    OUTLAST_BLAME=("${SAYS[@]:6}")
  }
}
judged() {
  died
  OUTLAST_CLASS=''
  status_of ol_progress_look "$OUTLAST_LOG" last
  status_of ol_ending_attempt
}

@test "ending: hardware that the log surely puts down to a node of ours is the node's, and it is blamed" {
  log_says gpu_ecc hardware transient retry-exclude 0.90 'uncorrectable ECC error' n2
  judged
  [ "$OUTLAST_CLASS ${OUTLAST_BLAME[*]}" = 'node n2' ]
  [[ $OUTLAST_EVIDENCE == 'gpu_ecc (hardware, transient): uncorrectable ECC error; outlast: rank 1 on n1 ended'* ]]
  [ "$OUTLAST_FINGERPRINT" = log:gpu_ecc:ab ]
}

@test "ending: a fabric's suspect is a crash with somebody to blame" {
  log_says ib_retry_exceeded fabric transient retry-exclude 0.85 'peer n2' n2
  judged
  [ "$OUTLAST_CLASS ${OUTLAST_BLAME[*]}" = 'crash n2' ]
}

@test "ending: a guess changes only the words" {
  local scope
  for scope in hardware storage config training-dynamics; do
    log_says guess "$scope" systemic stop 0.60 'who knows'
    judged
    [ "$OUTLAST_CLASS" = crash ]
    [[ $OUTLAST_EVIDENCE == *"guess ($scope, systemic, not sure): who knows" ]]
  done
}

@test "ending: a checkpoint that the log surely blames before the first step after a resume is a bad one" {
  OUTLAST_RESUME_STEP=40 OUTLAST_RESUME_FROM=/lake/demo/checkpoints/checkpoint-40
  log_says checkpoint_corrupt storage systemic stop 0.75 'failed finding central directory'
  judged
  [ "$OUTLAST_CLASS $OUTLAST_SUSPECT" = "bad_checkpoint $OUTLAST_RESUME_FROM" ]
  log_says file_not_found config systemic stop 0.75 "No such file: '/node/checkpoints/checkpoint-40/model.safetensors'"
  judged
  [ "$OUTLAST_CLASS" = bad_checkpoint ]
}

@test "ending: not the checkpoint: another one is named, it does not fit the model, a step was made, nothing was resumed" {
  OUTLAST_RESUME_STEP=40 OUTLAST_RESUME_FROM=/lake/demo/checkpoints/checkpoint-40
  log_says file_not_found config systemic stop 0.75 "No such file: '/other/checkpoint-400/x'"
  judged
  [ "$OUTLAST_CLASS $OUTLAST_SUSPECT" = 'systemic ' ]
  log_says checkpoint_mismatch config systemic stop 0.90 "size mismatch for /node/checkpoint-40"
  judged
  [ "$OUTLAST_CLASS" = systemic ]
  log_says checkpoint_corrupt storage systemic stop 0.75 'failed finding central directory'
  log 'step 45'
  judged
  [ "$OUTLAST_CLASS" = storage ]
  OUTLAST_RESUME_FROM='' OUTLAST_RESUME_STEP=''
  judged
  [ "$OUTLAST_CLASS" = storage ]
}

@test "ending: a file system that fails under the checkpoint does not make it a bad one; a file that is not there does" {
  OUTLAST_RESUME_STEP=40 OUTLAST_RESUME_FROM=/lake/demo/checkpoints/checkpoint-40
  log_says stale_file_handle storage transient retry 0.75 "[Errno 116] Stale file handle: '/lake/demo/checkpoints/checkpoint-40/x'"
  judged
  [ "$OUTLAST_CLASS $OUTLAST_SUSPECT" = 'storage ' ]
  log_says file_not_found storage unknown stop 0.75 "No such file: '/lake/demo/checkpoints/checkpoint-40/x'"
  judged
  [ "$OUTLAST_CLASS" = bad_checkpoint ]
}

@test "ending: a log whose steps nobody knows does not say that none was made" {
  OUTLAST_RESUME_STEP=40 OUTLAST_RESUME_FROM=/lake/demo/checkpoints/checkpoint-40 OUTLAST_STEP_REGEX=''
  log_says checkpoint_corrupt storage systemic stop 0.75 'failed finding central directory'
  judged
  [ "$OUTLAST_CLASS" = storage ]
}

@test "ending: what the log surely says of storage counts, and words of errno do not against a sure cause" {
  log_says fs_hang storage transient retry-exclude 0.70 'hung' n1
  judged
  [ "$OUTLAST_CLASS ${OUTLAST_BLAME[*]}" = 'storage n1' ]
  log_says import_error config systemic stop 0.75 'No module named flash'
  log 'OSError: [Errno 5] Input/output error'
  judged
  [ "$OUTLAST_CLASS" = systemic ]
  log_says guess config systemic stop 0.50 'perhaps'
  judged
  [ "$OUTLAST_CLASS" = storage ]
}

@test "ending: the same at the same step on other nodes is systemic, unless it may pass" {
  past 6 launched hosts=n8,n9
  past 6 ended class=crash fingerprint=log:gpu_memory_fault:ab step:=50
  log 'step 50'
  log_says gpu_memory_fault unknown unknown retry 0.90 'illegal access' n1
  judged
  [ "$OUTLAST_CLASS $OUTLAST_EVERYWHERE ${#OUTLAST_BLAME[@]}" = 'systemic n8,n9 0' ]
  log_says gpu_memory_fault unknown transient retry 0.90 'illegal access'
  judged
  [ "$OUTLAST_CLASS" = crash ]
  OUTLAST_NODE_LIST=n1,n9
  log_says gpu_memory_fault unknown unknown retry 0.90 'illegal access'
  judged
  [ "$OUTLAST_CLASS" = crash ]
}

@test "ending: TERM that comes while the log is judged is asked about, and blames nobody" {
  log_says gpu_ecc hardware transient retry-exclude 0.90 'ECC' n2
  says running cancelled
  touch "$OUTLAST_STATE/term"
  judged
  [ "$OUTLAST_CLASS ${#OUTLAST_BLAME[@]}" = 'cancelled 0' ]
}

@test "ending: a dead node that the launcher names is the one to blame" {
  OUTLAST_HOSTS=(n03 n04)
  log 'srun: error: Node failure on n04'
  judged
  [ "$OUTLAST_CLASS ${OUTLAST_BLAME[*]} $OUTLAST_BLAME_WHY" = 'node n04 node_down' ]
}

@test "ending: of the rows before the one that was the case it is known why not" {
  judged
  [ "$OUTLAST_ENDING_ROW" = crash ]
  [[ ${OUTLAST_ENDING_ROWS[0]} == 'over: nothing says that training is over' ]]
  [[ ${OUTLAST_ENDING_ROWS[*]} == *'zero: exit code 1'*'launch: rank 0 had started'* ]]
}

@test "ending: what the trainer said last is kept without the secret in it" {
  log 'fatal: token hf_abcdefghijklmnopqrstuvwxyz123456 is not valid'
  died 'code 127'
  OUTLAST_LAUNCH_CODE=127
  [ "$(class)" = launch ]
  status_of ol_ending_attempt
  [[ $OUTLAST_EVIDENCE == *'fatal: token *** is not valid' ]]
}
