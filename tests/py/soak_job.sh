#!/usr/bin/env bash
# soak_job.sh ROOT HOST,... - what a job does for its checkpoints, by lib/ itself, on hosts that are folders of ROOT
#
# test_sidecar_soak.py starts it and kills what it has started. It launches ranks (soak_trainer.py) again and again, from
# the newest durable checkpoint, until ROOT/stop is there and they end by themselves. ROOT/story tells of each launch:
# `ATTEMPT CODE DRAINED STEP`, the step that it went on from.
set -uo pipefail
root=$1
here=${BASH_SOURCE[0]%/*}
IFS=, read -r -a OUTLAST_HOSTS <<<"$2"
OUTLAST_NODES=${#OUTLAST_HOSTS[@]} OUTLAST_NODE_LIST=$2

# Each host has a folder of its own where a word names that of the first; what runs there is in a session of its own.
ol_sched_on_each() {
  local hosts=$2 host pids=() pid status=0
  shift 2
  for host in ${hosts//,/ }; do
    SLURMD_NODENAME=$host setsid "${@//"$OUTLAST_LOCAL"/"$root/$host"}" &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || status=1
  done
  return "$status"
}
ol_sched_down_nodes() { :; }

# Prints nothing; sets `code` to that of the first rank that failed, 0: all have ended with 0.
ranks() {
  local host rank=0 pid status pids=()
  code=0
  for host in "${OUTLAST_HOSTS[@]}"; do
    setsid "$OUTLAST_PYTHON" -I -S "$here/soak_trainer.py" "$root/$host" "$rank" "$OUTLAST_NODES" "$OUTLAST_ATTEMPT" "$root" &
    pids+=("$!")
    rank=$((rank + 1))
  done
  while ((${#pids[@]} > 0)); do
    ol_bounded_nap 0.1
    ol_courier_start
    for rank in "${!pids[@]}"; do
      ! kill -0 "${pids[rank]}" 2>/dev/null || continue
      status=0
      wait "${pids[rank]}" || status=$?
      unset "pids[rank]"
      ((status != 0 && code == 0)) || continue
      code=$status
      for pid in "${pids[@]}"; do kill -s KILL "$pid"; done 2>/dev/null
    done
  done
}

# As lib/attempt.sh and lib/watch.sh write it down.
attempt() {
  local tick drained=1
  OUTLAST_ATTEMPT=$((OUTLAST_ATTEMPT + 1))
  _ol_attempt_choose && ol_stage || return
  printf '%d %s\n%s\n' "$OUTLAST_ATTEMPT" "$OUTLAST_NODE_LIST" "${OUTLAST_RESUME_FROM##*/}" >"$OUTLAST_STATE/attempt.new"
  mv "$OUTLAST_STATE/attempt.new" "$OUTLAST_STATE/attempt"
  printf 'running\n' >"$OUTLAST_STATE/ranks"
  ranks
  printf 'ended %(%s)T %d\n' -1 "$code" >"$OUTLAST_STATE/ranks"
  for ((tick = 0; tick < 100 && drained != 0; tick++)); do
    drained=0
    ol_sidecar_drain 60 || drained=$? # at once, where the sidecar was killed meanwhile
  done
  printf '%d %d %d %d\n' "$OUTLAST_ATTEMPT" "$code" "$drained" "${OUTLAST_RESUME_STEP:-0}" >>"$root/story"
}

main() {
  local file
  for file in "$here"/../../lib/*.sh; do
    # shellcheck disable=SC1090 # each file of lib/ but the front door, which acts
    [[ $file == */env.sh ]] || source "$file"
  done
  ol_environment_master() { echo 127.0.0.1; }
  ol_deadline_is_near() { return 1; }
  printf '%d\n' "$OUTLAST_DURABLE_AT_START" >"$OUTLAST_STATE/durable_step"
  ol_courier_start
  code=1
  while [[ ! -e $root/stop || $code != 0 ]]; do
    attempt || ol_bounded_nap 0.2
  done
  : >"$root/over"
  ol_courier_stop
}

main
