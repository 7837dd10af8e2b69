# shellcheck shell=bash
# lib/shim.sh - stands between the launcher and the trainer, once a rank
#
# Functions
#   ol_shim CMD...       run CMD as a rank: sets torch's rank variables, passes signals on, reports a bad end
#   ol_shim_text         print the shim as Bash text for `bash -c`: ranks read no file of ours
#
# The launch is told to stop with USR2 (srun forwards it to the ranks without asking its controller;
# slurm-facts: `scancel -s` to a step can arrive twice, and needs the controller). The shim makes TERM of
# it. A TERM that reaches a rank therefore comes from outside, and rank 0 says so. (Not under mpiexec: it sends TERM
# for a stop of ours as well as for tidying up after a lost rank or host, and what comes from outside reaches the script.)
#
# Prints   on stderr, read by lib/watch.sh:
#            outlast: rank 0 of 16 on HOST started
#            outlast: rank 0 got TERM from outside at EPOCH
#            outlast: rank 5 on HOST ended with code 3 at EPOCH
#            outlast: rank 5 on HOST ended with signal SEGV at EPOCH
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

# Launchers name ranks differently; torch reads these names.
_ol_shim_ranks() {
  local devices
  OL_SHIM_LAUNCHER=other
  [[ -n ${SLURM_PROCID:-} || -z ${PALS_RANKID:-${PMI_RANK:-}} ]] || OL_SHIM_LAUNCHER=mpiexec
  # The launcher may hand on the HOSTNAME of the first host.
  read -r HOSTNAME </proc/sys/kernel/hostname
  export LOCAL_WORLD_SIZE=${OUTLAST_RANKS_PER_NODE:-1}
  # Slurm; PALS and MPICH; torch's own names (the launcher of one machine).
  export RANK=${SLURM_PROCID:-${PALS_RANKID:-${PMI_RANK:-${RANK:-0}}}}
  export WORLD_SIZE=${SLURM_NTASKS:-${PMI_SIZE:-${WORLD_SIZE:-1}}}
  export NODE_RANK=${SLURM_NODEID:-${PALS_NODEID:-$((RANK / LOCAL_WORLD_SIZE))}}
  export LOCAL_RANK=${SLURM_LOCALID:-${PALS_LOCAL_RANKID:-${MPI_LOCALRANKID:-$((RANK % LOCAL_WORLD_SIZE))}}}
  # With --gpus-per-task each rank sees one device, number 0, and trainers take LOCAL_RANK as the
  # device number: so it must be 0 there ("invalid device ordinal" otherwise).
  devices=${ROCR_VISIBLE_DEVICES:-${CUDA_VISIBLE_DEVICES:-${ZE_AFFINITY_MASK:-}}}
  if [[ -n $devices && $devices != *,* ]] && ((LOCAL_WORLD_SIZE > 1)); then
    export LOCAL_RANK=0
  fi
}

# A signal can arrive twice within milliseconds; a trainer that aborts on the second one would die.
_ol_shim_pass() {
  local kind=$1 now_s
  printf -v now_s '%(%s)T' -1
  if [[ $kind == USR1 ]]; then
    ((now_s - OL_SHIM_SAVED_S > 2)) || return 0
    OL_SHIM_SAVED_S=$now_s
  else
    [[ $kind == USR2 || $RANK != 0 || $OL_SHIM_LAUNCHER == mpiexec ]] || printf 'outlast: rank 0 got TERM from outside at %d\n' "$now_s" >&2
    ((OL_SHIM_TERMS == 0)) || return 0
    OL_SHIM_TERMS=1
    kind=TERM
  fi
  if [[ -n $OL_SHIM_CHILD ]]; then
    kill -s "$kind" "$OL_SHIM_CHILD" 2>/dev/null
  else
    OL_SHIM_WAITING+=("$kind")
  fi
}

# The trainer may run, and be sent for, before its number is known here. Another signal may come meanwhile.
_ol_shim_child() { # PID
  local kind
  OL_SHIM_CHILD=$1
  for kind in "${OL_SHIM_WAITING[@]}"; do
    kill -s "$kind" "$1" 2>/dev/null
  done
}

_ol_shim_report() {
  local code=$1 now_s what="code $1"
  ((code != 0)) || return 0
  printf -v now_s '%(%s)T' -1
  # 255 (exit -1) is no signal, and those from 32 on have no name that the watch reads.
  ((code <= 128 || code >= 160)) || what="signal $(kill -l "$((code - 128))")"
  printf 'outlast: rank %d on %s ended with %s at %d\n' "$RANK" "${HOSTNAME:-?}" "$what" "$now_s" >&2
}

ol_shim() {
  local code=0
  OL_SHIM_TERMS=0 OL_SHIM_SAVED_S=0 OL_SHIM_CHILD='' OL_SHIM_WAITING=()
  trap '_ol_shim_pass TERM' TERM
  trap '_ol_shim_pass USR1' USR1
  trap '_ol_shim_pass USR2' USR2
  _ol_shim_ranks
  ((RANK != 0)) || printf 'outlast: rank 0 of %d on %s started\n' "$WORLD_SIZE" "${HOSTNAME:-?}" >&2
  # With cgroups a signal reaches only the process that the launcher started, this one; it stays in
  # front of the trainer so that there is somebody to say how the rank ended.
  "$@" &
  _ol_shim_child "$!"
  # `wait` returns early when a trapped signal arrives; only a dead child ends the loop.
  while :; do
    wait "$OL_SHIM_CHILD"
    code=$?
    kill -0 "$OL_SHIM_CHILD" 2>/dev/null || break
  done
  wait "$OL_SHIM_CHILD" 2>/dev/null && code=0 || code=$?
  _ol_shim_report "$code"
  return "$code"
}

ol_shim_text() {
  declare -f ol_shim _ol_shim_ranks _ol_shim_pass _ol_shim_child _ol_shim_report "$@"
  # shellcheck disable=SC2016 # expanded by the rank
  printf 'ol_shim "$@"; exit\n'
}
