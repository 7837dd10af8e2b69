# shellcheck shell=bash
# lib/smoke.sh - a trainer that trains nothing: it proves that a site works with outlast
#
# Functions
#   ol_smoke CKPT_DIR [--steps N] [--resume PATH]   what each rank of a `smoke` job runs: checks, then N steps (120) of
#                                                   a second each
#
# Prints   `smoke: ok|bad|unknown CHECK: what was seen`, and `step N` by rank 0
# Reads    RANK LOCAL_RANK NODE_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT OUTLAST_STOP_FILE OUTLAST_RESUME_STEP
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

_ol_smoke_say() { printf 'smoke: %s %s: %s\n' "$1" "$2" "$3"; }

_ol_smoke_ranks() {
  local wanted=$((NODE_RANK * LOCAL_WORLD_SIZE)) answer=bad
  ((RANK < WORLD_SIZE && RANK >= wanted && RANK < wanted + LOCAL_WORLD_SIZE)) && answer=ok
  _ol_smoke_say "$answer" "rank shim" "rank $RANK of $WORLD_SIZE is local rank $LOCAL_RANK of node $NODE_RANK, ${HOSTNAME:-?}"
}

# Write, read back, remove; where it lies.
_ol_smoke_storage() { # DIR
  local file=$1/.smoke.$RANK back=''
  if mkdir -p "$1" && printf 'smoke\n' >"$file" && sync "$file" && read -r back <"$file" && rm -f "$file" && [[ $back == smoke ]]; then
    _ol_smoke_say ok storage "$1 on ${HOSTNAME:-?}: $(df --output=fstype,avail -h "$1" | tail -n 1)"
  else
    _ol_smoke_say bad storage "cannot write $1 on ${HOSTNAME:-?}"
  fi
}

# Rank 0 listens, the first rank of every other node connects. Any Python 3 will do to listen.
_ol_smoke_listen() {
  python3 -c 'import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], int(sys.argv[2]))); s.listen(100); s.settimeout(60); end = time.time() + 60
while time.time() < end:
    try: s.accept()[0].sendall(b"outlast\n")
    except OSError: break' "$MASTER_ADDR" "$MASTER_PORT" >/dev/null 2>&1 &
  OL_SMOKE_LISTENER=$!
}

_ol_smoke_connect() {
  local tick back=''
  for ((tick = 0; tick < 20; tick++)); do
    if { exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT"; } 2>/dev/null; then
      read -rt 5 back <&3
      exec 3>&-
      break
    fi
    sleep 0.5
  done
  if [[ $back == outlast ]]; then
    _ol_smoke_say ok master "${HOSTNAME:-?} reaches $MASTER_ADDR:$MASTER_PORT"
  else
    _ol_smoke_say bad master "${HOSTNAME:-?} does not reach $MASTER_ADDR:$MASTER_PORT"
  fi
}

_ol_smoke_master() {
  if [[ ! $MASTER_ADDR =~ ^[0-9]+(\.[0-9]+){3}$ ]]; then
    _ol_smoke_say bad master "$MASTER_ADDR is no IPv4 address"
  elif ((RANK == 0)) && ! command -v python3 >/dev/null; then
    _ol_smoke_say unknown master "no python3 on ${HOSTNAME:-?} to listen on $MASTER_ADDR"
  elif ((RANK == 0)); then
    _ol_smoke_listen
  else
    _ol_smoke_connect
  fi
}

_ol_smoke_mail() {
  local command
  for command in sendmail mail mailx; do
    PATH=$PATH:/usr/sbin:/usr/lib command -v "$command" >/dev/null || continue
    _ol_smoke_say ok mail "$command is on ${HOSTNAME:-?}; whether it delivers, the mail at the end tells (mail.to)"
    return
  done
  _ol_smoke_say unknown mail "no mail command on ${HOSTNAME:-?}: mails wait in the run's outbox/ for your next outlast command on a login node"
}

# `step` and a number in these words would count as one that was made.
_ol_smoke_chain() { # [CHECKPOINT]
  local step=''
  if [[ -n ${OUTLAST_RESUME_STEP:-} ]]; then
    [[ ! -s ${1:-/nonexistent}/model.safetensors ]] || step=$(sed -n 's/^ *"global_step": \([0-9]*\).*/\1/p' "$1/trainer_state.json")
    if [[ $step == "$OUTLAST_RESUME_STEP" ]]; then
      _ol_smoke_say ok resume "checkpoint $step is in $1"
    else
      _ol_smoke_say bad resume "checkpoint $OUTLAST_RESUME_STEP was promised, and ${1:-nothing} holds ${step:-none}"
    fi
    _ol_smoke_say ok submit "job $OUTLAST_JOB_ID was submitted from a job's node and resumes from checkpoint $OUTLAST_RESUME_STEP"
  else
    _ol_smoke_say unknown submit "first job; the second one proves that a job can be submitted from here"
  fi
}

# A safetensors file: eight bytes with the length of its header (72), the header, one tensor.
_ol_smoke_weights() {
  local header='{"noise":{"dtype":"U8","shape":[1000000],"data_offsets":[0,1000000]}}'
  printf '\110\0\0\0\0\0\0\0%-72s' "$header" && head -c 1000000 /dev/urandom
}

# What a Trainer of Hugging Face leaves behind, so that it goes the way of a real one: weights, and written last
# trainer_state.json, which knows the steps made and wanted.
_ol_smoke_save() { # DIR STEP STEPS
  mkdir -p "$1/checkpoint-$2" && _ol_smoke_weights >"$1/checkpoint-$2/model.safetensors" &&
    printf '{\n  "global_step": %d,\n  "max_steps": %d\n}\n' "$2" "$3" >"$1/checkpoint-$2/trainer_state.json"
}

# More seconds than the first job is given: a second one has to follow.
_ol_smoke_train() { # DIR STEPS
  local step=${OUTLAST_RESUME_STEP:-0} steps=$2
  while ((step < steps)); do
    sleep 1
    step=$((step + 1))
    printf 'step %d\n' "$step"
    if [[ -n ${OL_SMOKE_STOP:-} || -e ${OUTLAST_STOP_FILE:-/nonexistent} ]]; then
      _ol_smoke_save "$1" "$step" "$steps"
      return
    fi
    ((step % 20 && step < steps)) || _ol_smoke_save "$1" "$step" "$steps"
  done
}

ol_smoke() {
  local dir=$1 steps=120 resume=''
  shift
  while (($# > 1)); do
    case $1 in
      --steps) steps=$2 ;;
      --resume) resume=$2 ;;
    esac
    shift 2
  done
  trap 'OL_SMOKE_STOP=1' TERM
  if ((LOCAL_RANK == 0 || RANK % LOCAL_WORLD_SIZE == 0)); then
    _ol_smoke_ranks
    _ol_smoke_storage "$dir"
    _ol_smoke_master
  fi
  ((RANK == 0)) || return 0
  _ol_smoke_mail
  _ol_smoke_chain "$resume"
  _ol_smoke_train "$dir" "$steps"
  [[ -z ${OL_SMOKE_LISTENER:-} ]] || kill "$OL_SMOKE_LISTENER" 2>/dev/null
  return 0
}
