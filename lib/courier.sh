# shellcheck shell=bash
# lib/courier.sh - what goes between the node and the shared file system while training runs
#
# Two processes of their own, because a shared file system can freeze for minutes and the watch must not:
# the courier carries small things (ledger, logs, messages, people's wishes, the lease), the sidecar carries checkpoints, by
# Python where that works (lib/coordinator.sh), else by itself; parts of one on several nodes by Python alone.
#
# Functions
#   ol_courier_start / ol_courier_stop     both processes; start leaves alone what is there
#   ol_courier_hurry                       what has been decided goes out now, nobody waits
#   ol_courier_carry SEC                   ask the courier for a round now, wait up to SEC seconds; 1 not done
#   ol_sidecar_hurry                       no rank writes any more: make the rest durable, nobody waits yet
#   ol_sidecar_drain SEC                   the same of the sidecar, when no rank writes any more
#   ol_courier_round                       one round of the courier
#   ol_courier_log                         append what is new in the job's logs to RUN/logs/
#   ol_sidecar_round [QUIET_S]             make complete checkpoints durable; 0 nothing is left to copy
#
# Files    OUTLAST_STATE/{stop,save,hold}  a person's wish was seen in RUN/control/
#          OUTLAST_STATE/lost              the lease is another job's
#          OUTLAST_STATE/local_step        newest complete checkpoint where the trainer writes, with its time
#          OUTLAST_STATE/durable_step      newest durable one that this job made
# Needs    log, bounded, ledger, lease, checkpoint, retention, whole, coordinator, mail, record
# Sourcing it defines the functions above and does nothing else.

# attempt.2.log is RUN/logs/JOB.RESTART.2.log, job.log is RUN/logs/JOB.RESTART.log
_ol_courier_log_name() {
  local name=${1##*/}
  [[ $name != on_durable* ]] || name=.$name
  name=${name#job}
  name=${name#attempt}
  printf '%s\n' "$OUTLAST_RUN_DIR/logs/$OUTLAST_JOB_ID.$OUTLAST_RESTART$name"
}

# A log's copy is continued at its own length, so an append whose end is not known does no harm.
ol_courier_log() {
  local log size name
  for log in "$OUTLAST_STATE"/job.log "$OUTLAST_LOCAL"/{attempt,on_durable}.*.log; do
    size=$(stat -c %s "$log" 2>/dev/null) || continue
    ((size > ${OL_COURIER_SENT[${log##*/}]:-0})) || continue
    name=$(_ol_courier_log_name "$log")
    # shellcheck disable=SC2016 # expanded by the child
    ol_shared bash -c 'have=$(stat -c %s "$2" 2>/dev/null || echo 0)
      tail -c "+$((have + 1))" "$1" >>"$2"' _ "$log" "$name" || return
    OL_COURIER_SENT[${log##*/}]=$size
  done
}

# One look for all: what people wish (`save` is done once, so its file goes when it has been seen), and whether
# a newer lease than ours is there.
_ol_courier_look() {
  local seen word
  # shellcheck disable=SC2016 # expanded by the child
  seen=$(ol_shared_print bash -c 'cd "$1/control" || exit
    for f in stop save hold; do [[ ! -e $f ]] || echo "$f"; done; rm -f save
    for f in ../lease/[0-9][0-9][0-9][0-9][0-9][0-9]; do [[ ! ${f##*/} > $2 ]] || echo lost; done' _ \
    "$OUTLAST_RUN_DIR" "$OUTLAST_GENERATION") || return
  for word in $seen; do
    [[ -e $OUTLAST_STATE/$word ]] || ol_log_info "seen in the run's folder: $word"
    printf '%(%s)T\n' -1 >"$OUTLAST_STATE/$word"
  done
}

ol_courier_round() {
  ol_ledger_flush
  ol_courier_log
  ol_mail_carry
  ol_record_carry
  _ol_courier_look
}

# Sleep up to SEC seconds; a request of the supervisor (FILE_wanted differs from FILE_done) ends it.
_ol_courier_nap() { # SEC FILE
  local tick wanted done_
  for ((tick = 0; tick < $1 * 4; tick++)); do
    wanted='' done_=''
    read -r wanted 2>/dev/null <"$OUTLAST_STATE/$2_wanted"
    read -r done_ 2>/dev/null <"$OUTLAST_STATE/$2_done"
    [[ -z $wanted || $wanted == "$done_" ]] || return 0
    ol_bounded_nap 0.25
  done
}

_ol_courier_loop() { # MAIN_PID
  local wanted
  local -A OL_COURIER_SENT=()
  trap '' TERM USR1
  cd / || return
  while kill -0 "$1" 2>/dev/null && [[ -d $OUTLAST_STATE ]]; do
    wanted=''
    read -r wanted 2>/dev/null <"$OUTLAST_STATE/carry_wanted"
    ol_courier_round
    [[ -z $wanted ]] || printf '%s\n' "$wanted" >"$OUTLAST_STATE/carry_done"
    _ol_courier_nap "${OUTLAST_COURIER_S:-5}" carry
  done
}

# Newest first: when time is short the newest is the one that counts. What is older than the newest
# durable checkpoint is not copied any more.
ol_sidecar_round() {
  local step path durable=-1 left=0 status
  [[ ! -s $OUTLAST_STATE/durable_step ]] || read -r durable <"$OUTLAST_STATE/durable_step"
  while read -r step path; do
    ((step > durable)) || continue
    _ol_sidecar_seen "$step"
    status=0
    ol_checkpoint_keep "$step" "$path" || status=$?
    if ((status == 0)); then
      durable=$step
      ol_retention_prune
    elif ((status == 3)); then
      : >"$OUTLAST_STATE/lost" # nothing of ours is wanted any more
      return 0
    else
      left=1
    fi
  done < <(ol_checkpoint_complete "$@" | _ol_sidecar_whole | sort -rn)
  return "$left"
}

# Of the shared file system that has been asked; of a node's own disk, where agents do it, it is for what Bash copies.
_ol_sidecar_whole() {
  if [[ $OUTLAST_STORAGE == local ]]; then ol_whole_only; else cat; fi
}

_ol_sidecar_seen() {
  local known=-1 _
  [[ ! -s $OUTLAST_STATE/local_step ]] || read -r known _ <"$OUTLAST_STATE/local_step"
  (($1 > known)) || return 0
  printf '%d %(%s)T\n' "$1" -1 >"$OUTLAST_STATE/local_step"
  ol_ledger_add checkpoint_local step:="$1"
}

# When the supervisor asks, no rank writes any more: nothing has to be quiet first. What cannot be copied is
# tried again and again, a second apart.
_ol_sidecar_loop() { # MAIN_PID
  local wanted OL_SIDECAR_LOOPS=1
  trap '' TERM USR1
  cd / || return
  while kill -0 "$1" 2>/dev/null && [[ -d $OUTLAST_STATE ]]; do
    if ol_coordinator_serves || ol_checkpoint_is_in_parts; then
      ol_bounded_nap 0.5
      continue
    fi
    ol_checkpoint_attempt
    wanted=''
    read -r wanted 2>/dev/null <"$OUTLAST_STATE/drain_wanted"
    if [[ -z $wanted ]]; then
      ol_sidecar_round
    elif ol_sidecar_round 0; then
      printf '%s\n' "$wanted" >"$OUTLAST_STATE/drain_done"
    else
      ol_bounded_nap 1
    fi
    _ol_courier_nap "${OUTLAST_SIDECAR_S:-5}" drain
  done
}

# Ask for a round now and wait for it. Status 0 done; 1 not within SEC seconds, or the process is gone;
# 2 the job got TERM meanwhile.
_ol_courier_ask() { # FILE PID SEC
  local tick answer token calm=1
  [[ ! -e $OUTLAST_STATE/term ]] || calm=0
  printf -v token '%(%s)T.%d' -1 "$RANDOM"
  printf '%s\n' "$token" >"$OUTLAST_STATE/$1_wanted"
  for ((tick = 0; tick < $3 * 10; tick++)); do
    answer=''
    read -r answer 2>/dev/null <"$OUTLAST_STATE/$1_done"
    [[ $answer != "$token" ]] || return 0
    kill -0 "$2" 2>/dev/null || return 1
    [[ $calm == 0 || ! -e $OUTLAST_STATE/term ]] || return 2
    ol_bounded_nap 0.1
  done
  return 1
}

# What is written after one may need the next, so no two are the same.
ol_courier_hurry() { printf '%(%s)T.%d\n' -1 "$RANDOM" >"$OUTLAST_STATE/carry_wanted"; }

ol_courier_carry() { _ol_courier_ask carry "${OUTLAST_COURIER_PID:-0}" "$1"; }

# The same without waiting.
ol_sidecar_hurry() { printf 'hurry\n' >"$OUTLAST_STATE/drain_wanted"; }

# The next attempt's trainer writes again, so the request is taken back when it has been met.
ol_sidecar_drain() {
  local status=0
  ol_courier_start
  _ol_courier_ask drain "${OUTLAST_SIDECAR_PID:-0}" "$1" || status=$?
  rm -f "$OUTLAST_STATE/drain_wanted" "$OUTLAST_STATE/drain_done"
  return "$status"
}

_ol_courier_is_gone() { # PID
  [[ -n $1 ]] || return 0
  ! kill -0 "$1" 2>/dev/null || return 1
  ol_log_warn "a helper of ours was gone; starting it again"
}

ol_courier_start() {
  if _ol_courier_is_gone "${OUTLAST_COURIER_PID:-}"; then
    _ol_courier_loop "$$" &
    OUTLAST_COURIER_PID=$!
  fi
  if _ol_courier_is_gone "${OUTLAST_SIDECAR_PID:-}"; then
    _ol_sidecar_loop "$$" &
    OUTLAST_SIDECAR_PID=$!
  fi
}

# TERM is ignored there: under some process trackers the whole job gets it while there is still work to do
# (slurm-facts 4). Not waited for: a child of theirs may hang with the file system.
ol_courier_stop() {
  local pid
  for pid in "${OUTLAST_COURIER_PID:-}" "${OUTLAST_SIDECAR_PID:-}"; do
    [[ -z $pid ]] || kill -s KILL "$pid" 2>/dev/null
  done
}
