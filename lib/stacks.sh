# shellcheck shell=bash
# lib/stacks.sh - what every process of a launch is doing, written down before it is ended
#
# Functions
#   ol_stacks_start       on all nodes of the launch, by a process of its own: RUN/stacks/JOB.RESTART.ATTEMPT/HOST.txt
#   ol_stacks_are_taken   has it ended? 0 yes
#   ol_stacks_stop        it is not wanted any more
#
# Of each process that has our token: /proc's status, and of its threads what they wait for; kernel stacks where the node
# lets us; Python's own by faulthandler (a signal that the trainer handles; they go to the trainer's log) and by py-spy
# where it is installed. NCCL's flight recorder is told to write, and its files are copied. A node has 30 s; one that does
# not answer has that written into its file.
#
# Files    OUTLAST_STATE/suspect   `HOST REASON` of the node that is unlike the others (lib/suspect.sh), or nothing
# Sets     OUTLAST_STACKS_PID
# Reads    OUTLAST_NODE_LIST OUTLAST_TOKEN OUTLAST_STACK_SIGNAL OUTLAST_LOCAL OUTLAST_RUN_DIR
# Needs    log, bounded, masked, py, suspect
# Sourcing it defines the functions above and does nothing else.

# The next functions run on the nodes, where nothing else of ours is.
_ol_stacks_has() { # PID NAME: print a variable of that process
  tr '\0' '\n' <"/proc/$1/environ" 2>/dev/null | sed -n "s/^$2=//p" | head -n 1
}

# Only who handles the signal gets it: others would die of it.
_ol_stacks_signal() { # NAME PID...
  local name=$1 caught bit
  bit=$(($(kill -l "$1") - 1))
  shift
  while (($# > 0)); do
    caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    ! ((16#${caught:-0} >> bit & 1)) || kill -s "$name" "$1" 2>/dev/null
    shift
  done
}

_ol_stacks_process() { # PID
  local task words name wchan
  words=$(tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | head -c 2000)
  ol_masked_text "$words"
  printf '\n== process %d, rank %s: %s\n' "$1" "$(_ol_stacks_has "$1" RANK)" "${OUTLAST_MASKED:0:300}"
  grep -E '^(Name|State|PPid|Threads|VmRSS|SigBlk|SigCgt):' "/proc/$1/status" 2>/dev/null | tr '\t\n' '  '
  printf '\nsyscall %s\n' "$(head -c 200 "/proc/$1/syscall" 2>/dev/null)"
  head -c 2000 "/proc/$1/stack" 2>/dev/null
  for task in "/proc/$1/task"/*; do
    name='' wchan=''
    { read -r name <"$task/comm"; } 2>/dev/null
    { read -r wchan <"$task/wchan"; } 2>/dev/null
    printf 'thread %s %s waits in %s\n' "${task##*/}" "$name" "$wchan"
  done | head -n 40
}

# py-spy as the trainer would find it; its first line has the command line again.
_ol_stacks_python() { # PID
  local program path line
  path=$(_ol_stacks_has "$1" PATH)
  program=$(PATH=${path:-$PATH} type -P py-spy) || return 0
  printf '\n== Python of process %d\n' "$1"
  timeout -k 1 10 "$program" dump --nonblocking --pid "$1" 2>&1 </dev/null | head -n 200 | {
    IFS= read -r line
    ol_masked_text "$line"
    printf '%s\n' "$OUTLAST_MASKED"
    cat
  }
}

# A process is ours by its token; this one has none. Shims and the launcher only wait for their children.
_ol_stacks_pids() { # TOKEN
  local environ pid
  for environ in /proc/[0-9]*/environ; do
    pid=${environ//[!0-9]/}
    [[ -O $environ && $pid != "$$" ]] || continue
    grep -qzFx "OUTLAST_TOKEN=$1" "$environ" 2>/dev/null || continue
    grep -qz '^outlast-rank$' "/proc/$pid/cmdline" 2>/dev/null || printf '%d\n' "$pid"
  done | head -n 64
}

_ol_stacks_all() { # SIGNAL PID...
  local name=$1 pid scratch pids=()
  shift
  printf 'stacks of %s at %(%F %T)T, load %s\n' "$HOSTNAME" -1 "$(head -c 40 /proc/loadavg)"
  (($# > 0)) || printf 'no process of this launch is here\n'
  [[ -z $name ]] || _ol_stacks_signal "$name" "$@"
  scratch=$(mktemp -d) || return
  for pid in "$@"; do
    _ol_stacks_python "$pid" >"$scratch/$pid" &
    pids+=("$!")
  done
  for pid in "$@"; do _ol_stacks_process "$pid"; done
  for pid in "${pids[@]}"; do wait "$pid"; done
  cat "$scratch"/* 2>/dev/null
  rm -rf "$scratch"
}

# The recorder writes when something comes into its pipe (PyTorch, ProcessGroupNCCL.cpp, DumpPipe).
_ol_stacks_flight() { # FOLDER PID...
  local into=$1 pid stem rank pipe=''
  shift
  for pid in "$@"; do
    rank=$(_ol_stacks_has "$pid" RANK)
    pipe=$(_ol_stacks_has "$pid" TORCH_NCCL_DEBUG_INFO_PIPE_FILE)$rank.pipe
    # shellcheck disable=SC2016 # expanded by the child
    [[ ! -p $pipe ]] || timeout 1 bash -c 'printf 1 >"$1"' _ "$pipe"
  done
  [[ ! -p $pipe ]] || sleep 3
  for pid in "$@"; do
    rank=$(_ol_stacks_has "$pid" RANK)
    stem=$(_ol_stacks_has "$pid" TORCH_NCCL_DEBUG_INFO_TEMP_FILE)
    [[ -n $stem && -s $stem$rank ]] || continue
    timeout -k 1 10 head -c 16777216 "$stem$rank" 2>/dev/null | timeout -k 1 10 dd "of=$into/flight.$rank" status=none 2>/dev/null
  done
}

# Each line begins with the node's name: all nodes write into one pipe.
_ol_stacks_node() { # TOKEN SIGNAL FOLDER BYTES
  local pids=()
  read -r HOSTNAME </proc/sys/kernel/hostname
  HOSTNAME=${SLURMD_NODENAME:-$HOSTNAME}
  mapfile -t pids < <(_ol_stacks_pids "$1")
  _ol_stacks_all "$2" "${pids[@]}" 2>&1 | LC_ALL=C tr -cd '\11\12\40-\176' | cut -c 1-400 | head -c "$4" | sed -e "s/^/@$HOSTNAME@/"
  _ol_stacks_flight "$3" "${pids[@]}"
}

_ol_stacks_text() {
  declare -f ol_masked_text _ol_masked_is_secret _ol_masked_form _ol_masked_pem
  declare -f _ol_stacks_has _ol_stacks_signal _ol_stacks_process _ol_stacks_python _ol_stacks_pids _ol_stacks_all _ol_stacks_flight _ol_stacks_node
  # shellcheck disable=SC2016 # expanded on the node
  printf '_ol_stacks_node "$@"\n'
}

# A node's name comes back in another form on some machines; one that has said nothing is noted. Names of files are those
# of our own hosts.
_ol_stacks_split() { # ALL FOLDER HOSTS
  # shellcheck disable=SC2016 # of awk
  printf '%s\n' "${3//,/$'\n'}" | LC_ALL=C awk -F@ -v folder="$2" '
    NR == FNR {
      sub(/\..*/, "")
      file[$0] = folder "/" $0 ".txt"
      printf "" >file[$0]
      close(file[$0])
      next
    }
    /^@/ {
      name = $2
      sub(/\..*/, "", name)
      if (!(name in file)) next
      # Nodes write at the same time; few files may be open at once.
      if (name != last && last != "") close(file[last])
      last = name
      said[name] = 1
      print substr($0, length($2) + 3) >>file[name]
    }
    END { for (name in file) if (!(name in said)) print "no answer" >>file[name] }' - "$1"
}

# What the flight recorders say together, if there are any.
_ol_stacks_compare() { # FOLDER
  # shellcheck disable=SC2016 # expanded by the child
  ! ol_shared bash -c 'set -- "$1"/flight.*; [[ -e $1 ]]' _ "$1" || ol_py_ask 20 flight "$1" --words
}

_ol_stacks_collect() {
  local name=$OUTLAST_JOB_ID.$OUTLAST_RESTART.$OUTLAST_ATTEMPT each bytes text
  local mine=$OUTLAST_LOCAL/stacks/$name theirs=$OUTLAST_RUN_DIR/stacks/$name
  IFS=, read -ra each <<<"$OUTLAST_NODE_LIST"
  bytes=$((32000000 / ${#each[@]}))
  ((bytes < 200000)) || bytes=200000
  text=$(_ol_stacks_text)
  rm -rf "$mine"
  mkdir -p "$mine" || return
  ol_shared mkdir -p "$theirs"
  ol_sched_on_each 30 "$OUTLAST_NODE_LIST" bash -c "$text" _ "$OUTLAST_TOKEN" "$OUTLAST_STACK_SIGNAL" "$theirs" "$bytes" >"$mine/all" 2>"$mine/errors" </dev/null
  _ol_stacks_split "$mine/all" "$mine" "$OUTLAST_NODE_LIST"
  _ol_stacks_compare "$theirs" >"$mine/flight"
  ol_suspect "$mine" "$OUTLAST_NODE_LIST" >"$OUTLAST_STATE/suspect"
  rm -f "$mine/all"
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cp "$1"/*.txt "$2/"' _ "$mine" "$theirs" || ol_log_warn "the stacks stay on this node: $mine"
  ol_log_info "stacks are in $theirs"
}

ol_stacks_start() {
  rm -f "$OUTLAST_STATE/suspect"
  (
    trap - TERM USR1 EXIT
    _ol_stacks_collect
  ) &
  OUTLAST_STACKS_PID=$! OUTLAST_STACKS_S=$SECONDS
}

# All its commands are bounded; a minute and a half is more than they take in all.
ol_stacks_are_taken() {
  [[ -n ${OUTLAST_STACKS_PID:-} ]] && kill -0 "$OUTLAST_STACKS_PID" 2>/dev/null || return 0
  ((SECONDS - OUTLAST_STACKS_S > 90))
}

ol_stacks_stop() {
  [[ -z ${OUTLAST_STACKS_PID:-} ]] || kill "$OUTLAST_STACKS_PID" 2>/dev/null
  OUTLAST_STACKS_PID=''
}
